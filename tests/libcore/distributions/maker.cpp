#include "tests/libcore/distributions/maker.h"

#include <stdexcept>

#include "libcore/tensor/factory.h"
#include "tests/support/golden_device.h"

namespace test {

namespace dist = core::distributions;
using core::Tensor;

namespace {

Json args_of(Json made) {
  return member(made, "args");
}
bool has_argument(Json made, const char* name) {
  return has(args_of(made), name);
}
Json at(Json made, const char* name) {
  return member(args_of(made), name);
}

dist::Options options_of(Json made) {
  const Json options = member(made, "options");
  if (!has(options, "validate_args")) return {};
  return {.validate_args = boolean(member(options, "validate_args"))};
}

dist::CacheOptions cache_of(Json made) {
  const Json options = member(made, "options");
  if (!has(options, "cache_size")) return {};
  return {.cache_size = static_cast<int>(integer(member(options, "cache_size")))};
}

template <class D, class... Args>
std::shared_ptr<const dist::Distribution> a(Args&&... args) {
  return std::make_shared<D>(std::forward<Args>(args)...);
}

}  // namespace

Tensor tensor_of(const GoldenArray& array) {
  return core::from_bytes(array.bytes, array.shape, array.dtype, {.device = core::Device()}).to(golden_device());
}

dist::Argument Maker::argument(Json made, const char* name) {
  const Json value = at(made, name);
  if (value.is_object()) return tensor(made, name);
  if (value.is_int64()) return integer(value);
  return number(value);
}

Tensor Maker::tensor(Json made, const char* name) {
  const std::string full = path + name;
  if (leaves.contains(full)) return leaves[full];
  Tensor x = tensor_of(arrays_.at(text(member(at(made, name), "array"))));
  if (x.is_floating_point()) leaves[full] = x.requires_grad_();
  return x;
}

dist::ProbsOrLogits Maker::probs_or_logits(Json made) {
  dist::ProbsOrLogits given;
  if (has_argument(made, "probs")) given.probs = argument(made, "probs");
  if (has_argument(made, "logits")) given.logits = argument(made, "logits");
  given.validate_args = options_of(made).validate_args;
  return given;
}

std::shared_ptr<const dist::Distribution> Maker::distribution(Json made) {
  const std::string name = text(member(made, "name"));
  for (const auto family :
       {&Maker::of_numbers, &Maker::discrete, &Maker::relaxed, &Maker::of_matrices, &Maker::of_others}) {
    if (auto found = (this->*family)(made, name)) return found;
  }
  throw std::out_of_range("no such distribution: " + name);
}

std::shared_ptr<const dist::Distribution> Maker::of_numbers(Json made, const std::string& name) {
  const dist::Options options = options_of(made);
  const auto of = [&](const char* key) { return argument(made, key); };
  if (name == "Normal") return a<dist::Normal>(of("loc"), of("scale"), options);
  if (name == "LogNormal") return a<dist::LogNormal>(of("loc"), of("scale"), options);
  if (name == "LogisticNormal") return a<dist::LogisticNormal>(of("loc"), of("scale"), options);
  if (name == "Laplace") return a<dist::Laplace>(of("loc"), of("scale"), options);
  if (name == "Cauchy") return a<dist::Cauchy>(of("loc"), of("scale"), options);
  if (name == "Gumbel") return a<dist::Gumbel>(of("loc"), of("scale"), options);
  if (name == "HalfNormal") return a<dist::HalfNormal>(of("scale"), options);
  if (name == "HalfCauchy") return a<dist::HalfCauchy>(of("scale"), options);
  if (name == "Uniform") return a<dist::Uniform>(of("low"), of("high"), options);
  if (name == "Exponential") return a<dist::Exponential>(of("rate"), options);
  if (name == "Weibull") return a<dist::Weibull>(of("scale"), of("concentration"), options);
  if (name == "Pareto") return a<dist::Pareto>(of("scale"), of("alpha"), options);
  if (name == "GeneralizedPareto") {
    return a<dist::GeneralizedPareto>(of("loc"), of("scale"), of("concentration"), options);
  }
  if (name == "Gamma") return a<dist::Gamma>(of("concentration"), of("rate"), options);
  if (name == "InverseGamma") return a<dist::InverseGamma>(of("concentration"), of("rate"), options);
  if (name == "Chi2") return a<dist::Chi2>(of("df"), options);
  if (name == "FisherSnedecor") return a<dist::FisherSnedecor>(of("df1"), of("df2"), options);
  if (name == "StudentT" && !has_argument(made, "loc")) return a<dist::StudentT>(of("df"));
  if (name == "StudentT") return a<dist::StudentT>(of("df"), of("loc"), of("scale"), options);
  if (name == "Beta") return a<dist::Beta>(of("concentration1"), of("concentration0"), options);
  if (name == "Kumaraswamy") return a<dist::Kumaraswamy>(of("concentration1"), of("concentration0"), options);
  if (name == "VonMises") return a<dist::VonMises>(of("loc"), of("concentration"), options);
  if (name == "Poisson") return a<dist::Poisson>(of("rate"), options);
  return nullptr;
}

std::shared_ptr<const dist::Distribution> Maker::discrete(Json made, const std::string& name) {
  const dist::ProbsOrLogits given = probs_or_logits(made);
  if (name == "Bernoulli") return a<dist::Bernoulli>(given);
  if (name == "Geometric") return a<dist::Geometric>(given);
  if (name == "Binomial") return a<dist::Binomial>(argument(made, "total_count"), given);
  if (name == "NegativeBinomial") return a<dist::NegativeBinomial>(argument(made, "total_count"), given);
  if (name == "Multinomial") return a<dist::Multinomial>(integer(at(made, "total_count")), given);
  if (name == "Categorical") return a<dist::Categorical>(given);
  if (name == "OneHotCategorical") return a<dist::OneHotCategorical>(given);
  if (name == "OneHotCategoricalStraightThrough") return a<dist::OneHotCategoricalStraightThrough>(given);
  return nullptr;
}

std::shared_ptr<const dist::Distribution> Maker::relaxed(Json made, const std::string& name) {
  const dist::ProbsOrLogits given = probs_or_logits(made);
  if (name == "ContinuousBernoulli" && has_argument(made, "lims")) {
    const std::vector<double> lims = numbers(at(made, "lims"));
    return a<dist::ContinuousBernoulli>(given, dist::UnstableRegion{.low = lims.at(0), .high = lims.at(1)});
  }
  if (name == "ContinuousBernoulli") return a<dist::ContinuousBernoulli>(given);
  if (!has_argument(made, "temperature")) return nullptr;
  const dist::Argument temperature = argument(made, "temperature");
  if (name == "RelaxedBernoulli") return a<dist::RelaxedBernoulli>(temperature, given);
  if (name == "LogitRelaxedBernoulli") return a<dist::LogitRelaxedBernoulli>(temperature, given);
  if (name == "RelaxedOneHotCategorical") return a<dist::RelaxedOneHotCategorical>(temperature, given);
  if (name == "ExpRelaxedCategorical") return a<dist::ExpRelaxedCategorical>(temperature, given);
  return nullptr;
}

dist::NormalMatrix Maker::normal_matrix(Json made) {
  dist::NormalMatrix matrix;
  if (has_argument(made, "covariance_matrix")) matrix.covariance_matrix = tensor(made, "covariance_matrix");
  if (has_argument(made, "precision_matrix")) matrix.precision_matrix = tensor(made, "precision_matrix");
  if (has_argument(made, "scale_tril")) matrix.scale_tril = tensor(made, "scale_tril");
  matrix.validate_args = options_of(made).validate_args;
  return matrix;
}

std::shared_ptr<const dist::Distribution> Maker::of_matrices(Json made, const std::string& name) {
  const dist::Options options = options_of(made);
  if (name == "Dirichlet") return a<dist::Dirichlet>(tensor(made, "concentration"), options);
  if (name == "MultivariateNormal") return a<dist::MultivariateNormal>(tensor(made, "loc"), normal_matrix(made));
  if (name == "LowRankMultivariateNormal") {
    const Tensor factor = tensor(made, "cov_factor"), diag = tensor(made, "cov_diag");
    return a<dist::LowRankMultivariateNormal>(tensor(made, "loc"), factor, diag, options);
  }
  if (name == "Wishart") return a<dist::Wishart>(argument(made, "df"), normal_matrix(made));
  if (name == "LKJCholesky") {
    return a<dist::LKJCholesky>(integer(at(made, "dim")), argument(made, "concentration"), options);
  }
  return nullptr;
}

/// The distribution among the arguments, whose leaves have that name before theirs.
std::shared_ptr<const dist::Distribution> Maker::inner(Json made, const char* name) {
  const std::string before = path;
  path = before + name + ".";
  auto found = distribution(at(made, name));
  path = before;
  return found;
}

std::shared_ptr<const dist::Distribution> Maker::of_others(Json made, const std::string& name) {
  if (name == "MixtureSameFamily") {
    const auto mixture = inner(made, "mixture_distribution"), components = inner(made, "component_distribution");
    return a<dist::MixtureSameFamily>(dynamic_cast<const dist::Categorical&>(*mixture), *components, options_of(made));
  }
  if (!has_argument(made, "base_distribution")) return nullptr;
  const auto base = inner(made, "base_distribution");
  if (name == "Independent") {
    return a<dist::Independent>(*base, integer(at(made, "reinterpreted_batch_ndims")), options_of(made));
  }
  return a<dist::TransformedDistribution>(*base, transforms(made, "transforms"), options_of(made));
}

std::vector<dist::Transform> Maker::transforms(Json made, const char* name) {
  const std::string before = path;
  std::vector<dist::Transform> result;
  for (Json each : items(at(made, name))) {
    path = before + name + "." + std::to_string(result.size()) + ".";
    result.push_back(transform(each));
  }
  path = before;
  return result;
}

dist::Transform Maker::joined(Json made, const std::string& name) {
  const dist::CacheOptions cache = cache_of(made);
  if (name == "ComposeTransform") return dist::ComposeTransform(transforms(made, "parts"), cache);
  if (name == "StackTransform") {
    return dist::StackTransform(transforms(made, "tseq"), integer(at(made, "dim")), cache);
  }
  if (name == "CatTransform") {
    return dist::CatTransform(transforms(made, "tseq"), integer(at(made, "dim")), integers(at(made, "lengths")), cache);
  }
  if (name == "IndependentTransform") {
    return dist::IndependentTransform(transform(at(made, "base_transform")),
                                      integer(at(made, "reinterpreted_batch_ndims")), cache);
  }
  if (name == "CumulativeDistributionTransform") {
    return dist::CumulativeDistributionTransform(*distribution(at(made, "distribution")), cache);
  }
  if (name == "biject_to") return dist::biject_to(inner(made, "support_of")->support());
  if (name == "transform_to") return dist::transform_to(inner(made, "support_of")->support());
  throw std::out_of_range("no such transform: " + name);
}

dist::Transform Maker::transform(Json made) {
  std::string name = text(member(made, "name"));
  const dist::CacheOptions cache = cache_of(made);
  const bool is_inverse = name.ends_with(".inv");
  if (is_inverse) name.resize(name.size() - 4);
  const auto made_by = [&]() -> dist::Transform {
    if (name == "ExpTransform") return dist::ExpTransform(cache);
    if (name == "SigmoidTransform") return dist::SigmoidTransform(cache);
    if (name == "TanhTransform") return dist::TanhTransform(cache);
    if (name == "SoftplusTransform") return dist::SoftplusTransform(cache);
    if (name == "AbsTransform") return dist::AbsTransform(cache);
    if (name == "PowerTransform") return dist::PowerTransform(argument(made, "exponent"), cache);
    if (name == "AffineTransform") {
      const std::int64_t event_dim = has_argument(made, "event_dim") ? integer(at(made, "event_dim")) : 0;
      return dist::AffineTransform(argument(made, "loc"), argument(made, "scale"),
                                   {.event_dim = event_dim, .cache_size = cache.cache_size});
    }
    if (name == "SoftmaxTransform") return dist::SoftmaxTransform(cache);
    if (name == "StickBreakingTransform") return dist::StickBreakingTransform(cache);
    if (name == "LowerCholeskyTransform") return dist::LowerCholeskyTransform(cache);
    if (name == "PositiveDefiniteTransform") return dist::PositiveDefiniteTransform(cache);
    if (name == "CorrCholeskyTransform") return dist::CorrCholeskyTransform(cache);
    if (name == "ReshapeTransform") {
      return dist::ReshapeTransform(shape(at(made, "in_shape")), shape(at(made, "out_shape")), cache);
    }
    return joined(made, name);
  };
  return is_inverse ? made_by().inv() : made_by();
}

}  // namespace test
