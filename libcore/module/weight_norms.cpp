// Weight and spectral normalisation, in the older and the newer style.
#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/base/fail.h"
#include "libcore/module/conv_nd.h"
#include "libcore/module/parametrize_list.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/detail/composed.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace detail {

Tensor norm_except_dim(const Tensor& v, std::optional<std::int64_t> dim) {
  if (!dim || *dim == -1) return norm(v);
  Shape others;
  for (std::int64_t d = 0; d < v.dim(); ++d) {
    if (d != *dim) others.push_back(d);
  }
  return others.empty() ? v.abs() : norm(v, {.dims = others, .keepdim = true});
}

Tensor weight_normed(const Tensor& v, const Tensor& g, std::optional<std::int64_t> dim) {
  return composed("WeightNormInterfaceBackward0", {v, g},
                  [dim](const TensorList& in) { return in[0] * (in[1] / norm_except_dim(in[0], dim)); });
}

Tensor weight_matrix(const Tensor& weight, std::int64_t dim) {
  return (dim == 0 ? weight : weight.movedim(dim, 0)).flatten(1);
}

namespace {

Tensor unit_vector(const Tensor& like, std::int64_t size, double eps) {
  const Tensor drawn = empty({size}, {.dtype = like.dtype(), .device = like.device()});
  normal_(drawn);
  return normalize(drawn, {.dim = 0, .eps = eps});
}

/// The parameter to be computed. Error(attribute) "'ReLU' object has no attribute 'weight'".
Tensor& parameter_named(Module& module, const std::string& name, const char* kind) {
  if (module.reparametrized()) {
    for (const auto& each : module.reparametrized()->own) {
      if (each->name != name || std::string(each->kind()) != kind) continue;
      throw Error(ErrorCode::runtime,
                  std::string("Cannot register two ") + kind + " hooks on the same parameter " + name);
    }
  }
  Tensor* member = written_member(module, name);
  if (member == nullptr || !member->defined()) {
    throw Error(ErrorCode::attribute, "'" + module.class_name() + "' object has no attribute '" + name + "'");
  }
  return *member;
}

void add_own(Module& module, std::unique_ptr<OwnMembers> own) {
  module.reparametrized().make().own.push_back(std::move(own));
}

/// Makes the parameter an ordinary one again, with the value that it has.
void remove_own(Module& module, const std::string& name, const char* kind) {
  ReparametrizedPtr& all = module.reparametrized();
  const auto is_it = [&](const auto& each) { return each->name == name && std::string(each->kind()) == kind; };
  if (all) {
    const auto found = std::find_if(all->own.begin(), all->own.end(), is_it);
    if (found != all->own.end()) {
      const NoGradGuard no_history;
      *written_member(module, name) = Parameter((*found)->compute(false).detach());
      all->own.erase(found);
      if (all->empty()) all.reset();
      return;
    }
  }
  detail::fail_value(std::string(kind) + " of '" + name + "' not found in " + module.str());
}

// --- weight normalisation

struct OwnWeightNorm final : OwnMembers {
  Parameter g, v;
  std::optional<std::int64_t> dim;

  std::unique_ptr<OwnMembers> copy() const override { return std::make_unique<OwnWeightNorm>(*this); }
  void list(Members& m) override { m.parameter(name + "_g", g).parameter(name + "_v", v); }
  Tensor compute(bool) override { return weight_normed(v, g, dim); }
  const char* kind() const override { return "weight_norm"; }
};

struct WeightNormStep : ModuleOf<WeightNormStep> {
  std::optional<std::int64_t> dim;
  explicit WeightNormStep(std::optional<std::int64_t> along) : dim(along) {}
  void members(Members&) override {}
  std::string class_name() const override { return "_WeightNorm"; }
  Tensor forward(const Tensor& g, const Tensor& v) const { return weight_normed(v, g, dim); }
  std::vector<Tensor> right_inverse(const Tensor& weight) const { return {norm_except_dim(weight, dim), weight}; }
};

/// States of the older style come under the newer names.
void rename_older(StateDict& state, const std::string& prefix, const std::string& name) {
  const std::string g = prefix + name + "_g", v = prefix + name + "_v",
                    to = prefix + "parametrizations." + name + ".original";
  if (!state.contains(g) || !state.contains(v)) return;
  const Tensor of_g = state.at(g), of_v = state.at(v);
  state.erase(g);
  state.erase(v);
  state.set(to + "0", of_g);
  state.set(to + "1", of_v);
}

// --- spectral normalisation

bool is_transposed_convolution(Module& module) {
  return dynamic_cast<ConvTranspose1d*>(&module) != nullptr || dynamic_cast<ConvTranspose2d*>(&module) != nullptr ||
         dynamic_cast<ConvTranspose3d*>(&module) != nullptr;
}

void check_iterations(std::int64_t count) {
  if (count > 0) return;
  detail::fail_value("Expected n_power_iterations to be positive, but got n_power_iterations=" + std::to_string(count));
}

/// `to` becomes the unit vector along `from`, in place: replicas on the originals' device write into them.
void put_unit(const Tensor& to, const Tensor& from, double eps) {
  to.copy_(normalize(from, {.dim = 0, .eps = eps}));
}

Tensor over_sigma(const Tensor& weight, const Tensor& matrix, const Tensor& u, const Tensor& v) {
  return weight / dot(u, mv(matrix, v));
}

struct OwnSpectralNorm final : OwnMembers {
  Parameter orig;
  Tensor u, v;
  SpectralOptions options;

  std::unique_ptr<OwnMembers> copy() const override { return std::make_unique<OwnSpectralNorm>(*this); }
  void list(Members& m) override { m.parameter(name + "_orig", orig).buffer(name + "_u", u).buffer(name + "_v", v); }
  Tensor compute(bool training) override {
    const Tensor matrix = weight_matrix(orig, *options.dim);
    if (!training) return over_sigma(orig, matrix, u, v);
    {
      const NoGradGuard no_history;
      for (std::int64_t i = 0; i < options.n_power_iterations; ++i) {
        put_unit(v, mv(matrix.t(), u), options.eps);
        put_unit(u, mv(matrix, v), options.eps);
      }
    }
    return over_sigma(orig, matrix, u.clone(), v.clone());
  }
  const char* kind() const override { return "spectral_norm"; }
};

struct SpectralNormStep : ModuleOf<SpectralNormStep> {
  Tensor u, v;
  SpectralOptions options;

  SpectralNormStep(const Tensor& weight, const SpectralOptions& given) : options(given) {
    if (weight.dim() < 2) return;
    const NoGradGuard no_history;
    const Tensor matrix = weight_matrix(weight, *options.dim);
    u = unit_vector(weight, matrix.size(0), options.eps);
    v = unit_vector(weight, matrix.size(1), options.eps);
    iterate(matrix, 15);
  }
  void members(Members& m) override { m.buffer("_u", u).buffer("_v", v); }
  std::string class_name() const override { return "_SpectralNorm"; }
  Tensor forward(const Tensor& weight) {
    if (weight.dim() < 2) return normalize(weight, {.dim = 0, .eps = options.eps});
    const Tensor matrix = weight_matrix(weight, *options.dim);
    if (is_training()) iterate(matrix, options.n_power_iterations);
    return over_sigma(weight, matrix, u.clone(), v.clone());
  }

 private:
  void iterate(const Tensor& matrix, std::int64_t count) {
    const NoGradGuard no_history;
    for (std::int64_t i = 0; i < count; ++i) {
      put_unit(u, mv(matrix, v), options.eps);
      put_unit(v, mv(matrix.t(), u), options.eps);
    }
  }
};

SpectralOptions with_dim(Module& module, const Tensor& weight, SpectralOptions options) {
  const std::int64_t rank = weight.dim(), dim = options.dim.value_or(is_transposed_convolution(module) ? 1 : 0);
  if (dim >= rank || dim < -rank) {
    throw Error(ErrorCode::index, "Dimension out of range (expected to be in range of [-" + std::to_string(rank) +
                                      ", " + std::to_string(rank - 1) + "] but got " + std::to_string(dim) + ")");
  }
  options.dim = dim < 0 ? dim + rank : dim;
  return options;
}

}  // namespace

void weight_norm(Module& module, const std::string& name, std::optional<std::int64_t> dim) {
  Tensor& weight = parameter_named(module, name, "weight_norm");
  auto own = std::make_unique<OwnWeightNorm>();
  own->name = name;
  own->dim = dim;
  {
    const NoGradGuard no_history;
    own->g = Parameter(norm_except_dim(weight.detach(), dim));
    own->v = Parameter(weight.detach());
  }
  add_own(module, std::move(own));
  recompute(module);
}

void spectral_norm(Module& module, const std::string& name, const SpectralOptions& options) {
  check_iterations(options.n_power_iterations);
  Tensor& weight = parameter_named(module, name, "spectral_norm");
  auto own = std::make_unique<OwnSpectralNorm>();
  own->name = name;
  own->options = with_dim(module, weight, options);
  static_cast<Tensor&>(own->orig) = weight;
  const Tensor matrix = weight_matrix(weight.detach(), *own->options.dim);
  own->u = unit_vector(weight, matrix.size(0), options.eps);
  own->v = unit_vector(weight, matrix.size(1), options.eps);
  weight = weight.detach();  // until the first call
  add_own(module, std::move(own));
}

void parametrized_weight_norm(Module& module, const std::string& name, std::optional<std::int64_t> dim) {
  register_parametrization(
      module, name,
      {std::make_shared<WeightNormStep>(dim),
       [](Module& own, const std::vector<Tensor>& in) { return static_cast<WeightNormStep&>(own)(in[0], in[1]); },
       [](Module& own, const Tensor& value) { return static_cast<WeightNormStep&>(own).right_inverse(value); }});
  module.register_load_state_dict_pre_hook(
      [name](Module&, StateDict& state, const std::string& prefix) { rename_older(state, prefix, name); });
}

void parametrized_spectral_norm(Module& module, const std::string& name, const SpectralOptions& options) {
  Tensor* weight = written_member(module, name);
  if (weight == nullptr || !weight->defined()) {
    detail::fail_value("Module '" + module.str() + "' has no parameter or buffer with name '" + name + "'");
  }
  check_iterations(options.n_power_iterations);
  auto step = std::make_shared<SpectralNormStep>(weight->detach(), with_dim(module, *weight, options));
  register_parametrization(module, name,
                           {step, [](Module& own, const std::vector<Tensor>& in) { return own.call(in[0]); }, {}});
}

}  // namespace detail

void remove_weight_norm(Module& module, const std::string& name) {
  detail::remove_own(module, name, "weight_norm");
}

void remove_spectral_norm(Module& module, const std::string& name) {
  detail::remove_own(module, name, "spectral_norm");
}

}  // namespace core
