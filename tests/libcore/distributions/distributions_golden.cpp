// Golden data set golden_distributions: what distributions, transforms and divergences give beside PyTorch's. Draws are
// equal to the last bit where they are what a generator gives, and near where more is computed from it.
#include <cmath>
#include <functional>
#include <set>
#include <sstream>

#include "libcore/autograd/autograd.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/core.h"
#include "libcore/tensor/random_gradients.h"
#include "tests/libcore/distributions/maker.h"
#include "tests/support/golden_device.h"

namespace {

namespace dist = core::distributions;
using core::Tensor;
using test::Json;
using Tensors = std::map<std::string, Tensor>;

/// What a query gives: a tensor, or text.
struct Answer {
  Tensor tensor;
  std::string text;
};

bool near(double a, double b, double room) {
  if (std::isnan(b)) return std::isnan(a);
  if (std::isinf(b)) return a == b;
  return std::abs(a - b) <= room * (1 + std::abs(b));
}

std::string differs(const std::string& name, const Tensor& got, const Tensor& wanted, bool exact) {
  if (!got.defined()) return name + " is not there";
  if (got.sizes() != wanted.sizes()) return name + " has sizes " + core::to_list(got.sizes());
  if (got.dtype() != wanted.dtype()) return name + " is " + std::string(core::name(got.dtype()));
  const double room = exact ? 0 : wanted.dtype() == core::DType::f64 ? 1e-7 : 4e-5;
  const std::vector<double> a = got.detach().to_vector<double>(), b = wanted.to_vector<double>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (near(a[i], b[i], room)) continue;
    std::ostringstream text;
    text.precision(9);
    text << name << "[" << i << "] is " << a[i] << ", not " << b[i];
    return text.str();
  }
  return "";
}

/// The result and its gradients by `leaves`, or the error. What another device draws are other numbers. PyTorch has no
/// text for some of what is not implemented.
std::string check(Json query, const test::GoldenArrays& arrays, bool exact, const Tensors& leaves,
                  const std::function<Answer()>& ask) {
  Answer answer;
  try {
    answer = ask();
  } catch (const core::Error& error) {
    if (!test::has(query, "error")) return std::string("threw: ") + error.what();
    const std::string wanted = test::text(test::member(query, "error"));
    const std::string kind = test::text(test::member(query, "kind"));
    const bool is_silent = wanted.empty() || kind == "AttributeError" || wanted.starts_with("<class");
    if (core::python_name(error.code()) != kind && kind != "AttributeError")
      return "fails as another kind than " + kind;
    return is_silent || test::is_same_error(error.message(), wanted)
               ? ""
               : "says \"" + error.message() + "\" where \"" + wanted + "\"";
  }
  if (test::has(query, "error")) return "does not fail: " + test::text(test::member(query, "error"));
  if (test::has(query, "text")) {
    const std::string wanted = test::text(test::member(query, "text"));
    return answer.text == wanted ? "" : "gives " + answer.text + " where " + wanted;
  }
  const Tensor wanted = test::tensor_of(arrays.at(test::text(test::member(query, "result"))));
  const bool is_other_draw = test::has(query, "seed") && test::on_golden_device();
  if (is_other_draw) return answer.tensor.sizes() == wanted.sizes() ? "" : "result has other sizes";
  if (std::string why = differs("result", answer.tensor, wanted, exact); !why.empty()) return why;
  if (!test::has(query, "grads")) return "";
  const Tensor& got = answer.tensor;
  const Tensor weights =
      core::arange(got.numel(), {.dtype = got.dtype(), .device = got.device()}).cos().reshape(got.sizes());
  std::vector<Tensor> inputs;
  std::vector<Tensor> grads;
  for (const auto field : test::member(query, "grads").get_object()) {
    inputs.push_back(leaves.at(std::string(field.key)));
    grads.push_back(test::tensor_of(arrays.at(test::text(field.value))));
  }
  if (inputs.empty()) return "";
  const std::vector<Tensor> all = core::grad({(got * weights).sum()}, inputs, {.allow_unused = true});
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::string why = differs("gradient " + std::to_string(i), all[i], grads[i], false); !why.empty()) return why;
  }
  return "";
}

std::string size_text(const core::Shape& sizes) {
  std::ostringstream text;
  text << sizes;
  return text.str();
}

Answer draw(const dist::Distribution& d, Json query, bool with_gradient) {
  core::manual_seed(test::integer(test::member(query, "seed")));
  const core::Shape sizes = test::shape(test::member(query, "sample_shape"));
  if (!test::has(query, "expand")) return {with_gradient ? d.rsample(sizes) : d.sample(sizes), {}};
  return {d.expanded(test::shape(test::member(query, "expand")))->sample(sizes), {}};
}

template <class D>
Tensor matrix_of(const D& d, const std::string& ask) {
  if (ask == "covariance_matrix") return d.covariance_matrix();
  if (ask == "precision_matrix") return d.precision_matrix();
  return ask == "scale_tril" ? d.scale_tril() : Tensor();
}

/// Undefined where it has none.
Tensor matrix_of(const dist::Distribution& d, const std::string& ask) {
  if (const auto* normal = dynamic_cast<const dist::MultivariateNormal*>(&d)) return matrix_of(*normal, ask);
  if (const auto* low = dynamic_cast<const dist::LowRankMultivariateNormal*>(&d)) return matrix_of(*low, ask);
  if (const auto* wishart = dynamic_cast<const dist::Wishart*>(&d)) return matrix_of(*wishart, ask);
  return {};
}

Answer ask_distribution(const dist::Distribution& d, Json query, const Tensor& value) {
  const std::string ask = test::text(test::member(query, "ask"));
  if (ask == "mean") return {d.mean(), {}};
  if (ask == "mode") return {d.mode(), {}};
  if (ask == "variance") return {d.variance(), {}};
  if (ask == "stddev") return {d.stddev(), {}};
  if (ask == "entropy") return {d.entropy(), {}};
  if (ask == "perplexity") return {d.perplexity(), {}};
  if (ask == "enumerate_support") {
    return {d.enumerate_support(test::boolean(test::member(query, "expand_values"))), {}};
  }
  if (ask == "sample" || ask == "rsample") return draw(d, query, ask == "rsample");
  if (ask == "log_prob") return {d.log_prob(value), {}};
  if (ask == "cdf") return {d.cdf(value), {}};
  if (ask == "icdf") return {d.icdf(value), {}};
  if (const auto* family = dynamic_cast<const dist::ExponentialFamily*>(&d)) {
    const std::vector<Tensor> params = family->natural_params();
    if (ask == "natural_params")
      return {params.at(static_cast<std::size_t>(test::integer(test::member(query, "index")))), {}};
    if (ask == "log_normalizer") return {family->log_normalizer(params), {}};
  }
  if (const Tensor matrix = matrix_of(d, ask); matrix.defined()) return {matrix, {}};
  if (const auto* pareto = dynamic_cast<const dist::GeneralizedPareto*>(&d)) {
    return {ask == "log_cdf" ? pareto->log_cdf(value) : pareto->log_survival_function(value), {}};
  }
  throw std::out_of_range("no such question: " + ask);
}

/// The others compute more from what is drawn, and round.
bool is_exact(Json made, const std::string& ask) {
  static const std::set<std::string> kExact = {"Bernoulli",
                                               "Beta",
                                               "Binomial",
                                               "Categorical",
                                               "Cauchy",
                                               "Chi2",
                                               "Dirichlet",
                                               "Exponential",
                                               "FisherSnedecor",
                                               "Gamma",
                                               "HalfCauchy",
                                               "HalfNormal",
                                               "Independent",
                                               "MixtureSameFamily",
                                               "Multinomial",
                                               "NegativeBinomial",
                                               "Normal",
                                               "OneHotCategorical",
                                               "OneHotCategoricalStraightThrough",
                                               "Poisson",
                                               "StudentT",
                                               "Uniform"};
  return ask == "sample" && kExact.contains(test::text(test::member(made, "name")));
}

std::string check_distribution_facts(Json json, const dist::Distribution& d) {
  const auto wanted = [&](const char* name) { return test::text(test::member(json, name)); };
  if (d.str() != wanted("text")) return "prints " + d.str();
  if (d.batch_shape() != test::shape(test::member(json, "batch_shape"))) return "batch_shape";
  if (d.event_shape() != test::shape(test::member(json, "event_shape"))) return "event_shape";
  if (d.support().str() != wanted("support")) return "support is " + d.support().str();
  if (d.has_rsample() != test::boolean(test::member(json, "has_rsample"))) return "has_rsample";
  if (d.has_enumerate_support() != test::boolean(test::member(json, "has_enumerate_support")))
    return "has_enumerate_support";
  const std::string wider = d.expanded(dist::joined({3}, d.batch_shape()))->str();
  return wider == wanted("expanded_text") ? "" : "expanded prints " + wider;
}

void run_distribution(const std::string& id, Json json, const test::GoldenArrays& arrays, test::GoldenRun& run) {
  const Json made = test::member(json, "made");
  if (test::has(json, "text")) {
    test::guarded(run, id, [&] {
      const std::string why = check_distribution_facts(json, *test::Maker(arrays).distribution(made));
      run.check(id, why.empty(), why);
    });
  }
  std::size_t number = 0;
  for (Json query : test::items(test::member(json, "queries"))) {
    const std::string ask = test::text(test::member(query, "ask"));
    const std::string name = id + "." + std::to_string(number++) + "." + ask;
    test::guarded(run, name, [&] {
      test::Maker maker(arrays);
      Tensor value;
      if (test::has(query, "value")) value = test::tensor_of(arrays.at(test::text(test::member(query, "value"))));
      if (value.defined() && value.is_floating_point()) maker.leaves["value"] = value.requires_grad_();
      std::shared_ptr<const dist::Distribution> d;
      if (ask != "make") d = maker.distribution(made);
      const std::string why = check(query, arrays, is_exact(made, ask), maker.leaves, [&]() -> Answer {
        if (ask == "make") return {{}, maker.distribution(made)->str()};
        return ask_distribution(*d, query, value);
      });
      run.check(name, why.empty(), why);
    });
  }
}

void run_pair(const std::string& id, Json json, const test::GoldenArrays& arrays, test::GoldenRun& run) {
  test::guarded(run, id, [&] {
    test::Maker maker(arrays);
    maker.path = "p.";
    const auto p = maker.distribution(test::member(json, "p"));
    maker.path = "q.";
    const auto q = maker.distribution(test::member(json, "q"));
    const std::string why = check(json, arrays, false, maker.leaves, [&]() -> Answer {
      return {dist::kl_divergence(*p, *q), {}};
    });
    run.check(id + "." + p->class_name() + "." + q->class_name(), why.empty(), why);
  });
}

Answer ask_transform(const dist::Transform& f, const std::string& ask, const Tensor& x, const Tensor& y) {
  if (ask == "forward") return {f(x), {}};
  if (ask == "inverse") return {f.inv()(y), {}};
  if (ask == "log_abs_det_jacobian") return {f.log_abs_det_jacobian(x, y), {}};
  if (ask == "sign") {
    const dist::Argument sign = f.sign();
    if (sign.is_number()) return {{}, sign.str()};
    return {sign.tensor(), {}};
  }
  if (ask == "domain") return {{}, f.domain().str() + " of " + std::to_string(f.domain().event_dim)};
  if (ask == "codomain") return {{}, f.codomain().str() + " of " + std::to_string(f.codomain().event_dim)};
  if (ask == "forward_shape") return {{}, size_text(f.forward_shape(x.sizes()))};
  if (ask == "inverse_shape") return {{}, size_text(f.inverse_shape(y.sizes()))};
  if (ask == "event_dim") return {{}, std::to_string(f.event_dim())};
  throw std::out_of_range("no such question: " + ask);
}

std::string check_transform_facts(Json json, const dist::Transform& f) {
  if (f.str() != test::text(test::member(json, "text"))) return "prints " + f.str();
  if (f.inv().str() != test::text(test::member(json, "inverse_text"))) return "inverse prints " + f.inv().str();
  return f.is_bijective() == test::boolean(test::member(json, "bijective")) ? "" : "bijective";
}

void run_transform(const std::string& id, Json json, const test::GoldenArrays& arrays, test::GoldenRun& run) {
  const Json made = test::member(json, "made");
  if (test::has(json, "text")) {
    test::guarded(run, id, [&] {
      const std::string why = check_transform_facts(json, test::Maker(arrays).transform(made));
      run.check(id, why.empty(), why);
    });
  }
  for (Json query : test::items(test::member(json, "queries"))) {
    const std::string ask = test::text(test::member(query, "ask"));
    const std::string name = id + "." + ask;
    test::guarded(run, name, [&] {
      test::Maker maker(arrays);
      Tensors given;
      for (const char* key : {"x", "y"}) {
        if (!test::has(query, key)) continue;
        given[key] = test::tensor_of(arrays.at(test::text(test::member(query, key)))).requires_grad_();
        maker.leaves[key] = given[key];
      }
      std::optional<dist::Transform> f;
      if (ask != "make") f = maker.transform(made);
      const std::string why = check(query, arrays, false, maker.leaves, [&]() -> Answer {
        if (ask == "make") return {{}, maker.transform(made).str()};
        return ask_transform(*f, ask, given["x"], given["y"]);
      });
      run.check(name, why.empty(), why);
    });
  }
}

/// The formulas themselves, over grids.
void run_gradient(const std::string& id, Json json, const test::GoldenArrays& arrays, test::GoldenRun& run) {
  const auto values = [&](const char* name) {
    return test::tensor_of(arrays.at(test::text(test::member(json, name)))).to_vector<double>();
  };
  const bool is_gamma = test::text(test::member(json, "of")) == "gamma";
  const std::vector<double> alpha = values("alpha"), x = values("x"), wanted = values("result");
  const std::vector<double> total = is_gamma ? alpha : values("total");
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double got = is_gamma ? core::detail::standard_gamma_grad(alpha[i], x[i])
                                : core::detail::dirichlet_grad(x[i], alpha[i], total[i]);
    if (std::abs(got - wanted[i]) <= 1e-8 * std::abs(wanted[i]) || got == wanted[i]) continue;
    std::ostringstream text;
    text.precision(12);
    text << "at alpha " << alpha[i] << ", total " << total[i] << ", x " << x[i] << ": " << got << ", not " << wanted[i];
    return run.fail(id, text.str());
  }
  run.pass(id);
}

}  // namespace

int main() {
  test::compute_on_golden_device();
  core::set_warning_handler({});  // Wishart warns of almost all that it draws
  return test::golden_main("distributions", "distributions/cases.json", [](Json root, test::GoldenRun& run) {
    const test::GoldenArrays arrays(*test::golden_file("distributions/cases.safetensors"));
    std::size_t number = 0;
    for (Json json : test::items(test::member(root, "distributions"))) {
      run_distribution(test::text(test::member(test::member(json, "made"), "name")) + "_" + std::to_string(number++),
                       json, arrays, run);
    }
    number = 0;
    for (Json json : test::items(test::member(root, "gradients"))) {
      run_gradient("gradient_" + std::to_string(number++), json, arrays, run);
    }
    number = 0;
    for (Json json : test::items(test::member(root, "pairs"))) {
      run_pair("kl_" + std::to_string(number++), json, arrays, run);
    }
    number = 0;
    for (Json json : test::items(test::member(root, "transforms"))) {
      run_transform(test::text(test::member(test::member(json, "made"), "name")) + "_" + std::to_string(number++), json,
                    arrays, run);
    }
  });
}
