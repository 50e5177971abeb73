#pragma once
// Pruning: parameters times a mask of zeros and ones, as torch.nn.utils.prune. The parameter `weight` becomes
// `weight_orig` (the same tensor, which an optimizer may hold already) and the buffer `weight_mask`; the member holds
// their product, computed at the start of each call. Pruning what is pruned goes on with what is left of it.
// Thread safety: as Module. Errors: PyTorch's texts: Error(value) "amount=1.5 should either be a float in the range [0,
// 1] or a non-negative integer", Error(attribute) "'Linear' object has no attribute 'wt'".
// Use: core::Linear fc(3, 2); core::prune::l1_unstructured(fc, "weight", 0.5); core::prune::remove(fc, "weight");

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libcore/module/module_base.h"
#include "libcore/tensor/tensor.h"

namespace core::prune {

/// How many: a fraction (0.3), or a count (2).
class Amount {
 public:
  template <std::floating_point T>
  Amount(T fraction) : fraction_(fraction), is_fraction_(true) {}  // NOLINT(google-explicit-constructor)
  template <std::integral T>
  Amount(T count) : count_(static_cast<std::int64_t>(count)) {}  // NOLINT(google-explicit-constructor)
  /// Of `size` elements or channels, the fraction rounded half to even.
  std::int64_t of(std::int64_t size) const;
  void check() const;

 private:
  double fraction_ = 0;
  std::int64_t count_ = 0;
  bool is_fraction_ = false;
};

/// All ones: pruned in name only.
void identity(Module& module, const std::string& name);
/// Single elements at random.
void random_unstructured(Module& module, const std::string& name, Amount amount);
/// The elements of the smallest size, or of the smallest of `importance_scores`, which have the parameter's shape.
void l1_unstructured(Module& module, const std::string& name, Amount amount, const Tensor& importance_scores = {});
/// Whole channels along `dim` at random.
void random_structured(Module& module, const std::string& name, Amount amount, std::int64_t dim);
/// The channels along `dim` with the smallest norm of order `n`.
void ln_structured(Module& module, const std::string& name, Amount amount, double n, std::int64_t dim,
                   const Tensor& importance_scores = {});
/// Elements where `mask` is 0.
void custom_from_mask(Module& module, const std::string& name, const Tensor& mask);

enum class Method { l1_unstructured, random_unstructured };
/// `amount` of the elements of several parameters together: (module, name) each.
void global_unstructured(const std::vector<std::pair<Module*, std::string>>& parameters, Method method, Amount amount);

/// The pruned values become the parameter's own. Error(value) "Parameter 'weight' of module Linear(...) has to be
/// pruned before pruning can be removed".
void remove(Module& module, const std::string& name);
/// Whether anything in the module or below it is pruned.
bool is_pruned(Module& module);

}  // namespace core::prune
