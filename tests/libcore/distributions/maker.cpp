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
  const dist::Options options = options_of(made);
  const auto of = [&](const char* key) { return argument(made, key); };
  if (name == "Normal") return a<dist::Normal>(of("loc"), of("scale"), options);
  if (name == "LogNormal") return a<dist::LogNormal>(of("loc"), of("scale"), options);
  if (name == "Laplace") return a<dist::Laplace>(of("loc"), of("scale"), options);
  if (name == "Uniform") return a<dist::Uniform>(of("low"), of("high"), options);
  if (name == "Exponential") return a<dist::Exponential>(of("rate"), options);
  if (name == "Gamma") return a<dist::Gamma>(of("concentration"), of("rate"), options);
  if (name == "Chi2") return a<dist::Chi2>(of("df"), options);
  if (name == "Beta") return a<dist::Beta>(of("concentration1"), of("concentration0"), options);
  if (name == "Dirichlet") return a<dist::Dirichlet>(tensor(made, "concentration"), options);
  if (name == "Poisson") return a<dist::Poisson>(of("rate"), options);
  if (name == "Independent" || name == "TransformedDistribution" || name == "MultivariateNormal") {
    return of_others(made, name);
  }
  return discrete(made, name);
}

std::shared_ptr<const dist::Distribution> Maker::discrete(Json made, const std::string& name) {
  const dist::ProbsOrLogits given = probs_or_logits(made);
  if (name == "Bernoulli") return a<dist::Bernoulli>(given);
  if (name == "Geometric") return a<dist::Geometric>(given);
  if (name == "Binomial") return a<dist::Binomial>(argument(made, "total_count"), given);
  if (name == "Categorical") return a<dist::Categorical>(given);
  if (name == "OneHotCategorical") return a<dist::OneHotCategorical>(given);
  if (name == "OneHotCategoricalStraightThrough") return a<dist::OneHotCategoricalStraightThrough>(given);
  throw std::out_of_range("no such distribution: " + name);
}

std::shared_ptr<const dist::Distribution> Maker::of_others(Json made, const std::string& name) {
  if (name == "MultivariateNormal") {
    dist::NormalMatrix matrix;
    if (has_argument(made, "covariance_matrix")) matrix.covariance_matrix = tensor(made, "covariance_matrix");
    if (has_argument(made, "precision_matrix")) matrix.precision_matrix = tensor(made, "precision_matrix");
    if (has_argument(made, "scale_tril")) matrix.scale_tril = tensor(made, "scale_tril");
    matrix.validate_args = options_of(made).validate_args;
    return a<dist::MultivariateNormal>(tensor(made, "loc"), matrix);
  }
  const std::string before = path;
  path = before + "base_distribution.";
  const auto base = distribution(at(made, "base_distribution"));
  path = before;
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
    if (name == "ReshapeTransform") {
      return dist::ReshapeTransform(shape(at(made, "in_shape")), shape(at(made, "out_shape")), cache);
    }
    return joined(made, name);
  };
  return is_inverse ? made_by().inv() : made_by();
}

}  // namespace test
