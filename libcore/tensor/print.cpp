#include "libcore/tensor/print.h"

#include <mutex>
#include <ostream>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/print_format.h"

namespace core {
namespace {

std::mutex options_mutex;
PrintOptions current_options;

/// Shown unless it is where tensors are made by default.
std::string device_suffix(const Tensor& tensor) {
  Device device = tensor.device();
  bool is_default_type = device.type() == default_device().type();
  bool is_other_gpu = device.is_cuda() && cuda::current_device() != device.index();
  return is_default_type && !is_other_gpu ? "" : device.str();
}

bool shows_dtype(const Tensor& tensor) {
  DType dtype = tensor.dtype();
  bool hides_when_empty = dtype == default_dtype();
  if (tensor.numel() == 0 || tensor.is_meta()) return !hides_when_empty;
  DType default_complex = default_dtype() == DType::f64 ? DType::c128 : DType::c64;
  return !hides_when_empty && dtype != default_complex && dtype != DType::i64 && dtype != DType::boolean;
}

std::string text_of(const Tensor& tensor, const detail::Suffixes& suffixes) {
  Tensor on_host = tensor.is_meta() ? tensor : tensor.detach().cpu();
  const auto* data = tensor.is_meta() ? nullptr : static_cast<const std::byte*>(on_host.raw_data());
  static constexpr std::byte kNothing{};  // an empty tensor may have no memory, and yet it is no meta tensor
  if (data == nullptr && !tensor.is_meta()) data = &kNothing;
  return detail::format_tensor({tensor.dtype(), on_host.sizes(), on_host.strides(), data}, suffixes, print_options());
}

}  // namespace

PrintOptions print_options() {
  std::scoped_lock lock(options_mutex);
  return current_options;
}

void set_print_options(const PrintOptions& options) {
  if (options.precision < 0 || options.threshold < 0 || options.edgeitems < 0 || options.linewidth < 1) {
    throw Error(ErrorCode::value, "print options must not be negative, and linewidth must be positive");
  }
  std::scoped_lock lock(options_mutex);
  current_options = options;
}

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "None";
  return text_of(tensor, {.device = device_suffix(tensor),
                          .show_dtype = shows_dtype(tensor),
                          .grad_fn = tensor.grad_fn_name(),
                          .requires_grad = tensor.requires_grad()});
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << to_string(tensor);
}

}  // namespace core
