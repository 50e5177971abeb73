#pragma once
// What an operation of autocast's lists does first: cast its inputs, and run with autocast off. The rule names
// PyTorch's lists; `on` for which devices the operation stands in them. Thread safety: as autocast. Internal to ops.
// Use: if (const Casts to(CastRule::lower, CastOn::any, {&a, &b}); to) return mm(to(a), to(b));

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "libcore/autograd/autocast.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace detail {

enum class CastRule : std::uint8_t {
  lower,   ///< f16 or bf16, as the guard says
  f32,     ///< f32
  widest,  ///< the widest type among the inputs
};
enum class CastOn : std::uint8_t { cpu, cuda, any };

class Casts {
 public:
  /// The first defined tensor says which device it is about.
  Casts(CastRule rule, CastOn on, std::initializer_list<const Tensor*> inputs) {
    if (autocast_mode.is_on()) start(rule, on, inputs.begin(), inputs.size());
  }
  Casts(CastRule rule, CastOn on, const std::vector<Tensor>& inputs);
  ~Casts() {
    if (active_) autocast_mode.suspended = false;
  }
  Casts(const Casts&) = delete;
  Casts& operator=(const Casts&) = delete;

  /// Whether the operation is to be called again with what this gives for its inputs.
  explicit operator bool() const { return active_; }
  /// `x` as the rule says; as it is where it is no number of at most 32 bits on the device, or undefined.
  Tensor operator()(const Tensor& x) const;
  std::vector<Tensor> operator()(const std::vector<Tensor>& all) const;

 private:
  void start(CastRule rule, CastOn on, const Tensor* const* inputs, std::size_t count);
  bool is_eligible(const Tensor& x) const;

  bool active_ = false, cuda_ = false;
  DType to_ = DType::f32;
};

}  // namespace detail

using detail::CastOn;
using detail::CastRule;
using detail::Casts;

}  // namespace core
