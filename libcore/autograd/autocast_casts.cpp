#include "libcore/autograd/autocast_casts.h"

#include <unordered_map>

#include "libcore/autograd/grad_mode.h"
#include "libcore/tensor/op_trace.h"
#include "libcore/tensor/tensor_impl.h"

namespace core {
namespace {

/// A weight that was cast. It holds the weight and its bytes, so that no others can come to stand at the same address.
struct Kept {
  Tensor weight;
  Storage source;
  std::uint32_t writes = 0;
  Tensor cast;
  std::uint32_t cast_writes = 0;

  bool is_current(DType to) const {
    return cast.dtype() == to && source.id() == weight.storage().id() && writes == source->writes() &&
           cast_writes == cast.storage()->writes();
  }
};
using Cache = std::unordered_map<const TensorImpl*, Kept>;

Cache& kept_casts() {
  static thread_local Cache cache;
  return cache;
}

/// As PyTorch's, but a weight that has changed is cast anew, and nothing is kept of what was cast without history.
Tensor cast_weight(const Tensor& weight, DType to) {
  Cache& kept = kept_casts();
  const auto found = kept.find(weight.impl());
  if (found != kept.end() && found->second.is_current(to)) return found->second.cast;
  const std::uint32_t writes = weight.storage()->writes();
  Tensor cast = weight.to(to);
  kept[weight.impl()] = {weight, weight.storage(), writes, cast, cast.storage()->writes()};
  return cast;
}

}  // namespace

void clear_autocast_cache() {
  if (!kept_casts().empty()) kept_casts().clear();
}

namespace detail {

Casts::Casts(CastRule rule, CastOn on, const std::vector<Tensor>& inputs) {
  if (!autocast_mode.is_on()) return;
  std::vector<const Tensor*> pointers;
  for (const Tensor& x : inputs) pointers.push_back(&x);
  start(rule, on, pointers.data(), pointers.size());
}

void Casts::start(CastRule rule, CastOn on, const Tensor* const* inputs, std::size_t count) {
  std::size_t first = 0;
  while (first < count && !inputs[first]->defined()) ++first;
  if (first == count) return;
  const Device device = inputs[first]->device();
  cuda_ = device.is_cuda();
  const bool is_on = cuda_ ? autocast_mode.cuda : device.is_cpu() && autocast_mode.cpu;
  if (!is_on || on == (cuda_ ? CastOn::cpu : CastOn::cuda)) return;
  const DType lower = cuda_ ? autocast_mode.cuda_dtype : autocast_mode.cpu_dtype;
  to_ = rule == CastRule::f32 ? DType::f32 : lower;
  for (std::size_t i = 0; rule == CastRule::widest && i < count; ++i) {
    if (is_eligible(*inputs[i]) && inputs[i]->dtype() == DType::f32) to_ = DType::f32;
  }
  active_ = true;
  autocast_mode.suspended = true;
  if (tracing.load(std::memory_order_relaxed) != 0) note_hidden_casts();
}

bool Casts::is_eligible(const Tensor& x) const {
  if (!x.defined() || !x.is_floating_point() || x.dtype() == DType::f64) return false;
  return cuda_ ? x.device().is_cuda() : x.device().is_cpu();
}

Tensor Casts::operator()(const Tensor& x) const {
  if (!is_eligible(x) || x.dtype() == to_) return x;
  const bool is_weight = x.dtype() == DType::f32 && x.requires_grad() && x.is_leaf() && !x.impl()->is_view;
  return is_weight && autocast_mode.cache_enabled && is_grad_enabled() ? cast_weight(x, to_) : x.to(to_);
}

std::vector<Tensor> Casts::operator()(const std::vector<Tensor>& all) const {
  std::vector<Tensor> result;
  for (const Tensor& x : all) result.push_back((*this)(x));
  return result;
}

}  // namespace detail
}  // namespace core
