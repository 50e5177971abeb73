#pragma once
// Parameter: a tensor that a module learns. It is a Tensor handle that asks for gradients and prints as PyTorch's does.
// Thread safety: as Tensor. Use: core::Parameter w(core::zeros({2, 3})); std::cout << w;  // Parameter containing: ...

#include <cstddef>
#include <iosfwd>

#include "libcore/module/detail/address_mark.h"
#include "libcore/tensor/tensor.h"

namespace core {

class Parameter : public Tensor {
 public:
  /// No tensor at all, as a registered None (`bias=False`).
  Parameter() = default;
  /// A leaf over `data`'s storage. Error(runtime) when gradients are asked for a dtype that cannot have them.
  explicit Parameter(const Tensor& data, bool requires_grad = true);

  /// The parameter whose mark stands there, or null. For members.cpp.
  static const Parameter* parameter_at(const void* place);
  /// Whether this tensor, of which `bytes` bytes are known to be there, is a Parameter.
  static bool holds(const Tensor& tensor, std::size_t bytes);

 private:
  detail::ParameterMark mark_;
};

/// "Parameter containing:\ntensor([...], requires_grad=True)".
std::ostream& operator<<(std::ostream& out, const Parameter& parameter);

}  // namespace core
