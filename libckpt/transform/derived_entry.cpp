#include "libckpt/transform/derived_entry.h"

#include <algorithm>
#include <numeric>

#include "libckpt/transform/cast_values.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using core::Shape;

/// `entry` with other values: what its file said about its memory holds no longer.
Entry derive(const Entry& entry, Shape shape) {
  if (entry.blocks) throw Error(ErrorCode::unsupported, type_name(entry) + " blocks can only be carried as they are");
  Entry out = entry;
  out.view.reset();
  out.shape = std::move(shape);
  return out;
}

std::string text_of(const std::vector<std::int64_t>& numbers) {
  return core::to_list(Shape(numbers));
}

std::uint64_t width_of(const Entry& entry) {
  int bits = core::bit_width(entry.dtype);
  if (bits % 8 != 0) {
    throw Error(ErrorCode::unsupported, std::string(core::name(entry.dtype)) +
                                            " has elements smaller than a byte, which cannot be moved alone");
  }
  return static_cast<std::uint64_t>(bits / 8);
}

/// Blocks can be renamed, but not taken apart: only their own format knows what is in them.
void require_values(const Entry& entry) {
  if (!entry.blocks) return;
  throw Error(ErrorCode::unsupported, "quantised blocks of type " + entry.blocks->name + " cannot be changed inside");
}

/// A window into the dense values of `entry`.
SourcePtr window(const Entry& entry, const Shape& shape, const Shape& strides, std::int64_t offset) {
  if (entry.bytes == nullptr) return nullptr;
  width_of(entry);
  auto storage = std::make_shared<Storage>();
  storage->dtype = entry.dtype;
  storage->bytes = entry.bytes;
  return gather({storage, offset, strides}, entry.dtype, shape);
}

std::vector<std::int64_t> full_order(const Entry& entry, std::vector<std::int64_t> dims) {
  auto rank = static_cast<std::int64_t>(entry.shape.size());
  if (dims.empty()) {
    if (rank < 2) {
      throw Error(ErrorCode::value,
                  "a tensor of shape " + core::to_list(entry.shape) + " does not have two dimensions to swap");
    }
    dims.resize(entry.shape.size());
    std::iota(dims.begin(), dims.end(), 0);
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  }
  std::vector<std::int64_t> sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  bool valid = sorted.size() == entry.shape.size();
  for (std::size_t d = 0; valid && d < sorted.size(); ++d) valid = sorted[d] == static_cast<std::int64_t>(d);
  if (!valid) {
    throw Error(ErrorCode::value,
                "dims = " + text_of(dims) + " is not an order of the dimensions of " + core::to_list(entry.shape));
  }
  return dims;
}

std::size_t dim_of(const Entry& entry, std::int64_t dim) {
  auto rank = static_cast<std::int64_t>(entry.shape.size());
  std::int64_t from_front = dim < 0 ? dim + rank : dim;
  if (from_front < 0 || from_front >= rank) {
    throw Error(ErrorCode::value, "dim = " + std::to_string(dim) + " is not a dimension of a tensor of shape " +
                                      core::to_list(entry.shape));
  }
  return static_cast<std::size_t>(from_front);
}

/// Rows of several sources by turns: row 0 of each, row 1 of each, ...
class FusedSource final : public ByteSource {
 public:
  struct Part {
    SourcePtr source;
    std::uint64_t row = 0;    ///< bytes of a row of this part
    std::uint64_t begin = 0;  ///< where it stands in a row of the result
  };
  FusedSource(std::vector<Part> parts, std::uint64_t rows) : parts_(std::move(parts)) {
    for (Part& part : parts_) {
      part.begin = row_;
      row_ = core::checked_add(row_, part.row);
    }
    size_ = core::checked_mul(row_, rows);
  }

  std::uint64_t size() const override { return size_; }
  void require_unchanged() const override {
    for (const Part& part : parts_) part.source->require_unchanged();
  }
  void visit_checked(const CheckedVisitor& see) const override {
    for (const Part& part : parts_) part.source->visit_checked(see);
  }

  void read(std::uint64_t offset, MutableBytes out) const override {
    if (offset > size_ || out.size() > size_ - offset) throw Error(ErrorCode::corrupt, "read past the end");
    while (!out.empty()) {
      std::uint64_t row = offset / row_;
      std::uint64_t within = offset % row_;
      const Part& part = part_at(within);
      std::uint64_t at = within - part.begin;
      std::size_t length = std::min<std::uint64_t>(part.row - at, out.size());
      part.source->read(row * part.row + at, out.first(length));
      out = out.subspan(length);
      offset += length;
    }
  }

 private:
  const Part& part_at(std::uint64_t within) const {
    auto next = std::upper_bound(parts_.begin(), parts_.end(), within,
                                 [](std::uint64_t at, const Part& part) { return at < part.begin; });
    // Parts without bytes begin where the next one does: the last that begins here has some.
    return *std::prev(next);
  }

  std::vector<Part> parts_;
  std::uint64_t row_ = 0;
  std::uint64_t size_ = 0;
};

std::vector<std::int64_t> part_sizes(const Entry& entry, std::size_t dim, std::size_t count,
                                     const std::vector<std::int64_t>& sizes) {
  std::int64_t whole = entry.shape[dim];
  if (sizes.empty()) {
    auto parts = static_cast<std::int64_t>(count);
    if (whole % parts != 0) {
      throw Error(ErrorCode::value, "dimension " + std::to_string(dim) + " of shape " + core::to_list(entry.shape) +
                                        " does not divide into " + std::to_string(parts) + " equal parts; give sizes");
    }
    return std::vector<std::int64_t>(count, whole / parts);
  }
  std::int64_t sum = 0;
  for (std::int64_t size : sizes) sum = size < 0 ? -1 : core::try_add(sum, size).value_or(-1);
  if (sizes.size() != count || sum != whole) {
    throw Error(ErrorCode::value, "sizes = " + text_of(sizes) + " do not make up dimension " + std::to_string(dim) +
                                      " of shape " + core::to_list(entry.shape));
  }
  return sizes;
}

void require_same_kind(const Entry& first, const Entry& part, std::size_t dim) {
  Shape a = first.shape;
  Shape b = part.shape;
  if (dim < a.size() && dim < b.size()) a[dim] = b[dim] = 0;
  bool flags = first.conjugate == part.conjugate && first.negative == part.negative;
  bool bytes = (first.bytes == nullptr) == (part.bytes == nullptr);
  if (first.dtype == part.dtype && a == b && flags && bytes) return;
  auto text = [](const Entry& e) { return std::string(core::name(e.dtype)) + " " + core::to_list(e.shape); };
  throw Error(ErrorCode::value, "parts do not fit together along dimension " + std::to_string(dim) + ": " +
                                    text(first) + " and " + text(part));
}

}  // namespace

EntryPtr transposed(const Entry& entry, const std::vector<std::int64_t>& dims) {
  require_values(entry);
  std::vector<std::int64_t> order = full_order(entry, dims);
  Shape dense = core::contiguous_strides(entry.shape);
  Shape shape;
  Shape strides;
  for (std::int64_t d : order) {
    shape.push_back(entry.shape[static_cast<std::size_t>(d)]);
    strides.push_back(dense[static_cast<std::size_t>(d)]);
  }
  Entry out = derive(entry, shape);
  out.bytes = window(entry, shape, strides, 0);
  return std::make_shared<const Entry>(std::move(out));
}

EntryPtr reshaped(const Entry& entry, const std::vector<std::int64_t>& shape) {
  require_values(entry);
  std::vector<std::int64_t> sizes = shape;
  auto open = std::find(sizes.begin(), sizes.end(), -1);
  std::uint64_t numel = entry.numel();
  for (std::size_t d = 0; d < sizes.size() && numel > 0; ++d) {
    if (sizes[d] == 0 && d < entry.shape.size()) sizes[d] = entry.shape[d];
  }
  if (open != sizes.end()) {
    *open = 1;
    std::uint64_t known = core::try_numel(sizes).value_or(0);
    *open = known > 0 && numel % known == 0 ? static_cast<std::int64_t>(numel / known) : -2;
  }
  if (core::try_numel(sizes) != std::optional(numel)) {
    throw Error(ErrorCode::value,
                "a tensor of shape " + core::to_list(entry.shape) + " does not fit shape = " + text_of(shape));
  }
  return std::make_shared<const Entry>(derive(entry, Shape(sizes)));
}

std::vector<EntryPtr> split_parts(const Entry& entry, std::int64_t dim, std::size_t count,
                                  const std::vector<std::int64_t>& sizes) {
  require_values(entry);
  std::size_t d = dim_of(entry, dim);
  Shape strides = core::contiguous_strides(entry.shape);
  std::vector<EntryPtr> out;
  std::int64_t begin = 0;
  for (std::int64_t size : part_sizes(entry, d, count, sizes)) {
    Shape shape = entry.shape;
    shape[d] = size;
    Entry part = derive(entry, shape);
    part.bytes = window(entry, shape, strides, begin * strides[d]);
    out.push_back(std::make_shared<const Entry>(std::move(part)));
    begin += size;
  }
  return out;
}

EntryPtr fused(const std::vector<EntryPtr>& parts, std::int64_t dim, const std::vector<std::int64_t>& sizes) {
  for (const EntryPtr& part : parts) require_values(*part);
  const Entry& first = *parts.front();
  std::size_t d = dim_of(first, dim);
  std::vector<FusedSource::Part> rows;
  Shape shape = first.shape;
  shape[d] = 0;
  std::uint64_t outer = 1;
  for (std::size_t i = 0; i < d; ++i) outer *= static_cast<std::uint64_t>(first.shape[i]);
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const Entry& part = *parts[p];
    require_same_kind(first, part, d);
    std::int64_t wanted = sizes.empty() ? first.shape[d] : sizes[p];
    if (part.shape[d] != wanted) {
      throw Error(ErrorCode::value, "part " + std::to_string(p + 1) + " has size " + std::to_string(part.shape[d]) +
                                        " along dimension " + std::to_string(d) + " where " + std::to_string(wanted) +
                                        " is expected; give sizes");
    }
    shape[d] = core::checked_add(shape[d], part.shape[d]);
    if (part.bytes != nullptr && outer > 0) rows.push_back({part.bytes, part.bytes->size() / outer});
  }
  width_of(first);
  Entry out = derive(first, shape);
  if (first.bytes != nullptr) {
    bool empty = out.numel() == 0;
    out.bytes = empty ? memory_source({}) : std::make_shared<FusedSource>(std::move(rows), outer);
  }
  return std::make_shared<const Entry>(std::move(out));
}

EntryPtr with_dtype(const Entry& entry, core::DType dtype) {
  require_values(entry);
  for (core::DType type : {entry.dtype, dtype}) {
    if (!can_cast(type)) {
      throw Error(ErrorCode::unsupported, "values of type " + std::string(core::name(type)) + " cannot be cast");
    }
  }
  Entry out = derive(entry, entry.shape);
  out.dtype = dtype;
  if (!core::is_complex(dtype)) out.conjugate = false;
  if (!core::is_floating(dtype) && !core::is_complex(dtype)) out.requires_grad = false;
  if (entry.bytes != nullptr) out.bytes = cast_source(entry.bytes, entry.dtype, dtype);
  return std::make_shared<const Entry>(std::move(out));
}

}  // namespace ckpt::detail
