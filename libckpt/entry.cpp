#include "libckpt/entry.h"

#include "libckpt/gather.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

using core::checked_add;
using core::checked_mul;
using core::Error;
using core::ErrorCode;

[[noreturn]] void throw_bad_view(const std::string& what) {
  throw Error(ErrorCode::corrupt, "the view " + what);
}

std::uint64_t checked_numel(const core::Shape& shape) {
  std::optional<std::uint64_t> numel = core::try_numel(shape.span());
  if (!numel) throw_bad_view("has the impossible shape " + core::to_list(shape));
  return *numel;
}

/// Elements from the first to the last one that the window touches.
std::uint64_t reach_of(const View& view, const core::Shape& shape) {
  if (view.strides.size() != shape.size()) throw_bad_view("has another number of strides than of dimensions");
  std::uint64_t reach = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (view.strides[d] < 0) throw_bad_view("has the negative stride " + std::to_string(view.strides[d]));
    auto steps = static_cast<std::uint64_t>(shape[d] - 1);
    reach = checked_add(reach, checked_mul(steps, static_cast<std::uint64_t>(view.strides[d])));
  }
  return reach;
}

/// Dense and row-major; the strides of dimensions of size 1 say nothing.
bool is_dense(const View& view, const core::Shape& shape) {
  std::uint64_t expected = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (static_cast<std::uint64_t>(view.strides[d]) != expected) return false;
    expected *= static_cast<std::uint64_t>(shape[d]);
  }
  return true;
}

std::uint64_t bytes_of(core::DType dtype, std::uint64_t count) {
  std::optional<std::uint64_t> size = core::byte_size(dtype, count);
  if (!size) throw_bad_view("does not begin or end on a byte");
  return *size;
}

}  // namespace

std::string type_name(const Entry& entry) {
  return entry.blocks ? entry.blocks->name : std::string(core::name(entry.dtype));
}

const core::Shape& value_shape(const Entry& entry) {
  return entry.blocks ? entry.blocks->shape : entry.shape;
}

const void* storage_identity(const Entry& entry) {
  if (entry.view) return entry.view->storage.get();
  return entry.bytes.get();
}

bool same_view(const Entry& a, const Entry& b) {
  const void* identity = storage_identity(a);
  if (identity == nullptr || identity != storage_identity(b)) return false;
  if (a.dtype != b.dtype || !(a.shape == b.shape)) return false;
  if (a.conjugate != b.conjugate || a.negative != b.negative) return false;
  if (!a.view) return true;
  return a.view->offset == b.view->offset && a.view->strides == b.view->strides;
}

SourcePtr gather(const View& view, core::DType dtype, const core::Shape& shape) {
  std::uint64_t numel = checked_numel(shape);
  if (view.offset < 0) throw_bad_view("begins at the negative offset " + std::to_string(view.offset));
  if (numel == 0) return memory_source({});
  const SourcePtr& storage = view.storage->bytes;
  std::uint64_t reach = reach_of(view, shape);
  std::uint64_t begin = bytes_of(dtype, static_cast<std::uint64_t>(view.offset));
  std::uint64_t size = bytes_of(dtype, numel);
  bool dense = is_dense(view, shape);
  std::uint64_t needed = checked_add(begin, dense ? size : bytes_of(dtype, reach));
  if (needed > storage->size()) {
    throw_bad_view("reaches past its storage: it needs " + std::to_string(needed) + " bytes where " +
                   std::to_string(storage->size()) + " are there");
  }
  if (dense) return slice(storage, begin, size);
  if (core::bit_width(dtype) % 8 != 0) throw_bad_view("is strided over elements smaller than a byte");
  auto width = static_cast<std::uint64_t>(core::bit_width(dtype) / 8);
  detail::GatherSource::Layout layout{storage, begin, width, size, {}};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    layout.dims.push_back({static_cast<std::uint64_t>(shape[d]), static_cast<std::uint64_t>(view.strides[d]) * width});
  }
  return std::make_shared<detail::GatherSource>(std::move(layout));
}

}  // namespace ckpt
