#include "libcore/tensor/print.h"

#include <cstring>
#include <mutex>
#include <ostream>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/print_format.h"
#include "libcore/tensor/uninitialized.h"

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

/// Lines but the first are moved right to stand under it.
std::string indented(const std::string& text, std::size_t by) {
  std::string result;
  for (const char c : text) {
    result += c;
    if (c == '\n') result.append(by, ' ');
  }
  return result;
}

std::string sparse_text(const Tensor& tensor) {
  static constexpr const char *kIndices = "tensor(indices=", *kValues = "       values=";
  const detail::SparseParts& parts = detail::parts_of(tensor);
  const auto bare = [&](const Tensor& t) { return text_of(t, {.device = "", .show_dtype = false, .grad_fn = ""}); };
  Shape sizes = tensor.sizes();
  std::string text = kIndices + indented(bare(parts.indices), std::strlen(kIndices)) + ",\n" + kValues +
                     indented(bare(parts.values), std::strlen(kValues)) + ",\n       size=(";
  for (std::size_t d = 0; d < sizes.size(); ++d) text += (d > 0 ? ", " : "") + std::to_string(sizes[d]);
  text += (sizes.size() == 1 ? ",)" : ")");
  text += ", nnz=" + std::to_string(parts.indices.size(1));
  if (const std::string device = device_suffix(tensor); !device.empty())
    text.insert(text.size(), ", device='" + device + "'");
  if (shows_dtype(tensor)) text += ", dtype=torch." + std::string(name(tensor.dtype()));
  return text + ", layout=torch.sparse_coo)";
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
  if (tensor.is_sparse()) return sparse_text(tensor);
  if (is_uninitialized(tensor)) return tensor.requires_grad() ? "<UninitializedParameter>" : "<UninitializedBuffer>";
  return text_of(tensor, {.device = device_suffix(tensor),
                          .show_dtype = shows_dtype(tensor),
                          .grad_fn = tensor.grad_fn_name(),
                          .requires_grad = tensor.requires_grad()});
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << to_string(tensor);
}

}  // namespace core
