#include "libckpt/format/npz/npy_array.h"

#include <algorithm>

#include "libckpt/io/byte_swap.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

std::uint64_t data_size(const NpyHeader& header) {
  std::optional<std::uint64_t> numel = core::try_numel(header.shape.span());
  std::optional<std::uint64_t> size = numel ? core::byte_size(header.dtype, *numel) : std::nullopt;
  if (!size) throw Error(ErrorCode::corrupt, "the .npy header has the impossible shape " + core::to_list(header.shape));
  return *size;
}

/// Rows instead of columns.
SourcePtr row_major(SourcePtr columns, const NpyHeader& header) {
  View view;
  auto storage = std::make_shared<Storage>();
  storage->dtype = header.dtype;
  storage->bytes = std::move(columns);
  view.storage = std::move(storage);
  std::int64_t stride = 1;
  for (std::int64_t size : header.shape) {
    view.strides.push_back(stride);
    stride *= size;
  }
  return gather(view, header.dtype, header.shape);
}

/// A header in memory and the data behind it.
class HeadedSource final : public ByteSource {
 public:
  HeadedSource(std::string head, SourcePtr body) : head_(std::move(head)), body_(std::move(body)) {}
  std::uint64_t size() const override { return head_.size() + body_->size(); }
  void require_unchanged() const override { body_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { body_->visit_checked(see); }
  void read(std::uint64_t offset, MutableBytes out) const override {
    if (offset < head_.size()) {
      std::uint64_t count = std::min<std::uint64_t>(head_.size() - offset, out.size());
      std::memcpy(out.data(), head_.data() + offset, count);
      out = out.subspan(count);
      offset += count;
    }
    if (!out.empty()) body_->read(offset - head_.size(), out);
  }

 private:
  std::string head_;
  SourcePtr body_;
};

}  // namespace

NpyArray array_behind(const NpyHeader& header, const SourcePtr& file) {
  std::uint64_t needed = data_size(header);
  std::uint64_t there = file->size() - header.data_offset;
  if (there < needed) {
    throw Error(ErrorCode::corrupt, "the array is cut off: " + core::format_count(there) + " of " +
                                        core::format_count(needed) + " bytes of data are there");
  }
  auto entry = std::make_shared<Entry>();
  entry->dtype = header.dtype;
  entry->shape = header.shape;
  entry->bytes = slice(file, header.data_offset, needed);
  if (header.big_endian) entry->bytes = byte_swapped(entry->bytes, swap_width(header.dtype));
  if (header.fortran && header.shape.size() > 1 && needed > 0) entry->bytes = row_major(entry->bytes, header);
  return {std::move(entry), there - needed};
}

SourcePtr make_npy(const Entry& entry) {
  return std::make_shared<HeadedSource>(make_npy_header(entry.dtype, entry.shape), entry.bytes);
}

}  // namespace ckpt::detail
