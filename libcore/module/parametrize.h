#pragma once
// Parameters that are computed from others: weight and spectral normalisation, orthogonal ones and a user's own, under
// PyTorch's names: parametrizations::weight_norm gives parametrizations.weight.original0 and original1, the older
// weight_norm weight_g and weight_v. As torch.nn.utils and torch.nn.utils.parametrize.
// A module computes such parameters at the start of each call (not of forward itself), so between calls the member
// holds what the last call used. Copies of the module share the tensors. Thread safety: as Module, but calls of one
// such module must not overlap. Use: core::Linear fc(3, 2); core::parametrizations::weight_norm(fc); core::Tensor y =
// fc(x);

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcore/module/module.h"

namespace core {

namespace detail {

/// One step of a parametrization: the module, its forward, and what undoes it for the initial value.
struct Parametrization {
  std::shared_ptr<Module> module;
  std::function<Tensor(Module&, const std::vector<Tensor>&)> forward;
  std::function<std::vector<Tensor>(Module&, const Tensor&)> right_inverse;  ///< null: the value itself
};
void register_parametrization(Module& module, const std::string& name, Parametrization step);

void weight_norm(Module& module, const std::string& name, std::optional<std::int64_t> dim);
struct SpectralOptions {
  std::int64_t n_power_iterations = 1;
  double eps = 1e-12;
  std::optional<std::int64_t> dim = {};  ///< 0; of transposed convolutions 1
};
void spectral_norm(Module& module, const std::string& name, const SpectralOptions& options);
void parametrized_weight_norm(Module& module, const std::string& name, std::optional<std::int64_t> dim);
struct OrthogonalOptions {
  std::string orthogonal_map = {};  ///< matrix_exp, cayley, householder; none: the first of square ones, else the last
  bool use_trivialization = true;   ///< keep a base that the map is multiplied with, so that the first value is given
};
void orthogonal(Module& module, const std::string& name, const OrthogonalOptions& options);
void parametrized_spectral_norm(Module& module, const std::string& name, const SpectralOptions& options);

}  // namespace detail

using SpectralNormOptions = detail::SpectralOptions;
using OrthogonalOptions = detail::OrthogonalOptions;

/// The parameter becomes `name`_g * `name`_v / |`name`_v|, with one norm for each index of `dim`, or one for all.
/// Errors: Error(runtime) "Cannot register two weight_norm hooks on the same parameter weight".
template <class M>
M& weight_norm(M& module, const std::string& name = "weight", std::optional<std::int64_t> dim = 0) {
  return detail::weight_norm(module, name, dim), module;
}
/// The parameter is ordinary again. Error(value) "weight_norm of 'weight' not found in Linear(...)".
void remove_weight_norm(Module& module, const std::string& name = "weight");

/// The parameter becomes `name`_orig over its largest singular value, which power iterations of each training call
/// follow.
template <class M>
M& spectral_norm(M& module, const std::string& name = "weight", const SpectralNormOptions& options = {}) {
  return detail::spectral_norm(module, name, options), module;
}
void remove_spectral_norm(Module& module, const std::string& name = "weight");

namespace parametrizations {

/// Loads states of the older weight_norm too.
template <class M>
M& weight_norm(M& module, const std::string& name = "weight", std::optional<std::int64_t> dim = 0) {
  return detail::parametrized_weight_norm(module, name, dim), module;
}
template <class M>
M& spectral_norm(M& module, const std::string& name = "weight", const SpectralNormOptions& options = {}) {
  return detail::parametrized_spectral_norm(module, name, options), module;
}
/// Matrices (the last two dimensions) with orthonormal columns, or rows where there are more columns. Errors(value):
/// PyTorch's texts for names, dimensions and maps.
template <class M>
M& orthogonal(M& module, const std::string& name = "weight", const OrthogonalOptions& options = {}) {
  return detail::orthogonal(module, name, options), module;
}

}  // namespace parametrizations

namespace parametrize {

/// The parameter (or buffer) `name` becomes parametrization(original); several on one parameter run one after the
/// other. A right_inverse(value) of the parametrization says what the original is to be. Errors(value): PyTorch's texts
/// for names that are not there and for other shapes and dtypes.
template <class P>
void register_parametrization(Module& module, const std::string& name, P parametrization) {
  detail::Parametrization step{std::make_shared<P>(std::move(parametrization)),
                               [](Module& own, const std::vector<Tensor>& in) { return own.call(in[0]); },
                               {}};
  if constexpr (requires(P & p, const Tensor& value) { p.right_inverse(value); }) {
    step.right_inverse = [](Module& own, const Tensor& value) {
      return std::vector<Tensor>{static_cast<P&>(own).right_inverse(value)};
    };
  }
  detail::register_parametrization(module, name, std::move(step));
}
/// The parameter is ordinary again, with its computed value or else the original. Error(value) "Module Linear(...) does
/// not have a parametrization on weight".
void remove_parametrizations(Module& module, const std::string& name, bool leave_parametrized = true);
bool is_parametrized(Module& module, std::optional<std::string> name = {});

}  // namespace parametrize
}  // namespace core
