#pragma once
// A tensor as a plain array for the update loops: the memory itself where it is dense, on the host and of the loop's
// type, else a copy that is written back. Also the small helpers around an optimizer's state. Thread safety: none. Use:
// HostArray<float> p(param); update(p.data()); p.commit();

#include <string_view>
#include <type_traits>
#include <vector>

#include "libcore/backend/backend.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {

/// Refers to its tensor, which has to outlive it.
template <class T>
class HostArray {
 public:
  /// An undefined tensor is a null array.
  explicit HostArray(const Tensor& tensor) : tensor_(tensor) {
    if (!tensor.defined()) return;
    bool is_direct =
        tensor.dtype() == dtype_of<T> && tensor.is_contiguous() && tensor.storage()->backend().is_host_memory();
    if (!is_direct) copy_ = tensor.detach().to(Device(), dtype_of<T>).contiguous();
    if (!is_direct && copy_.storage().id() == tensor.storage().id()) copy_ = copy_.clone();
    data_ = static_cast<T*>(const_cast<void*>((is_direct ? tensor_ : copy_).raw_data()));
  }
  explicit HostArray(Tensor&&) = delete;

  T* data() const { return data_; }

  /// Makes what was written to data() the tensor's value, and its version a new one.
  void commit() const {
    if (!tensor_.defined()) return;
    if (copy_.defined()) {
      tensor_.detach().copy_(copy_);
    } else {
      tensor_.impl()->bump_version();
    }
  }

 private:
  const Tensor& tensor_;
  Tensor copy_;
  T* data_ = nullptr;
};

/// Calls body.template operator()<T>() with the type the parameter is updated in: double for f64, float for the rest.
template <class Body>
void in_update_type(const Tensor& param, Body&& body) {
  if (param.dtype() == DType::f64) return body.template operator()<double>();
  body.template operator()<float>();
}

/// The state tensor `name`, made of zeros like the parameter when it is not there. Valid until one of another name is
/// made.
const Tensor& state_tensor(ParamState& state, std::string_view name, const Tensor& param);
/// Undefined when it is not there.
const Tensor& find_state(const ParamState& state, std::string_view name);
/// Counts "step" up and returns it: 1 the first time.
double count_step(ParamState& state);
/// The counter of steps taken so far on the parameter's device, moved or made there when it is not.
const Tensor& device_step(ParamState& state, const Tensor& param);
/// A zero step counter.
Tensor new_step();

}  // namespace core::detail
