#include "libcore/tensor/tensor.h"

#include <optional>
#include <string>
#include <string_view>

#include "libcore/autograd/autograd_meta.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/complex_elements.h"
#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/detail/in_place.h"
#include "libcore/ops/detail/nodes.h"
#include "libcore/ops/raw/memory.h"
#include "libcore/ops/sparse.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/intrusive_ptr.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/pinned.h"
#include "libcore/tensor/scalar.h"
#include "libcore/tensor/storage.h"
#include "libcore/tensor/tensor_impl.h"

namespace core {
namespace {

struct ToCopyBackward final : Node {
  DType dtype = DType::f32;
  Device device;
  std::string_view name() const override { return "ToCopyBackward0"; }
  TensorList apply(TensorList g) override {
    const bool stays_complex = core::is_complex(g[0].dtype()) && !core::is_complex(dtype);  // the engine takes the part
    return {g[0].to(device, stays_complex ? complex_type(dtype) : dtype)};
  }
};
CORE_NODE(CloneBackward, "CloneBackward0", return {g[0]};)
struct CopyBackwards final : Node {
  Device from;
  std::string_view name() const override { return "torch::autograd::CopyBackwards"; }
  TensorList apply(TensorList g) override {
    return {wants(0) ? zeros_like(g[0]) : Tensor(), wants(1) ? g[0].to(from) : Tensor()};
  }
};

void warn_of_lost_part(DType from, DType to) {
  if (!core::is_complex(from) || core::is_complex(to) || to == DType::boolean) return;
  warn("Casting complex values to real discards the imaginary part");
}

/// Records the move of `x` to `out`.
Tensor moved(const Tensor& x, Tensor out) {
  if (!needs_grad(x) || !is_inexact(out.dtype())) return out;
  auto node = make_node<ToCopyBackward>(x);
  node->dtype = x.dtype();
  node->device = x.device();
  record(out, node);
  return out;
}

}  // namespace

Tensor Tensor::to(const ToOptions& options) const {
  Backend& target = options.device ? backend_for(*options.device) : raw::backend_of(*this);
  DType wanted = options.dtype.value_or(dtype());
  if (is_sparse() || target.is_sparse()) return detail::sparse_to(*this, options);
  warn_of_lost_part(dtype(), wanted);
  const bool lies_so =
      !options.memory_format || *options.memory_format == MemoryFormat::preserve ||
      (is_contiguous(*options.memory_format) && raw::suggested_format(*this) == *options.memory_format);
  if (&target == &raw::backend_of(*this) && wanted == dtype()) {
    if (lies_so && !options.copy) return *this;
    return moved(*this, lies_so ? raw::clone(*this) : raw::formatted(*this, *options.memory_format));
  }
  // Casting happens where fewer bytes have to travel afterwards.
  bool narrower = bit_width(wanted) <= bit_width(dtype());
  // What the host goes on working with has to be there.
  const bool is_last = (narrower && lies_so) || !target.is_host_memory();
  const auto waiting = options.non_blocking && is_last ? raw::Waiting::non_blocking : raw::Waiting::blocking;
  Tensor out = narrower ? raw::move(raw::cast(*this, wanted), target, waiting)
                        : raw::cast(raw::move(*this, target, waiting), wanted);
  return moved(*this, lies_so ? out : raw::formatted(out, *options.memory_format));
}
Tensor Tensor::to(MemoryFormat format) const {
  return to(ToOptions{.device = {}, .dtype = {}, .memory_format = format});
}
Tensor Tensor::to(Device device) const {
  return to(ToOptions{.device = device, .dtype = {}});
}
Tensor Tensor::to(DType dtype) const {
  return to(ToOptions{.device = {}, .dtype = dtype});
}
Tensor Tensor::to(Device device, DType dtype) const {
  return to(ToOptions{.device = device, .dtype = dtype});
}
Tensor Tensor::cuda(std::optional<int> index) const {
  return to(index ? Device(DeviceType::cuda, *index) : Device(DeviceType::cuda));
}
Tensor Tensor::type_as(const Tensor& other) const {
  return to(other.device(), other.dtype());
}

Tensor Tensor::contiguous() const {
  if (is_contiguous()) return *this;
  return detail::with_node<CloneBackward>(*this, raw::contiguous(*this));
}

Tensor Tensor::contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::preserve) {
    throw Error(ErrorCode::runtime, "preserve memory format is unsupported by the contiguous operator");
  }
  if (is_contiguous(format)) return *this;
  if (format == MemoryFormat::contiguous) return contiguous();
  return detail::with_node<CloneBackward>(*this, raw::formatted(*this, format));
}

Tensor Tensor::clone() const {
  if (is_sparse()) return detail::sparse_clone(*this);
  return detail::with_node<CloneBackward>(*this, raw::clone(*this));
}
Tensor Tensor::clone(MemoryFormat format) const {
  if (format == MemoryFormat::preserve) return clone();
  return detail::with_node<CloneBackward>(*this, raw::formatted(*this, format));
}

const Tensor& Tensor::copy_(const Tensor& from) const {
  detail::check_writable(*this, needs_grad(*this, from));
  if (!is_same(from)) detail::check_overlap(*this, from);
  warn_of_lost_part(from.dtype(), dtype());
  IntrusivePtr<CopyBackwards> node;
  if (needs_grad(*this, from) && is_inexact(dtype())) {
    node = make_node<CopyBackwards>(*this, from);
    node->from = from.device();
  }
  raw::copy_into(*this, from);
  self().bump_version();
  if (node) record_in_place(*this, node);
  return *this;
}

}  // namespace core
