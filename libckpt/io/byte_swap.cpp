#include "libckpt/io/byte_swap.h"

#include <algorithm>

namespace ckpt {
namespace {

constexpr std::uint64_t kSwappedPart = 1 << 20;  // a multiple of every width

class SwappedSource final : public ByteSource {
 public:
  SwappedSource(SourcePtr source, unsigned width) : source_(std::move(source)), width_(width) {}

  std::uint64_t size() const override { return source_->size(); }
  void require_unchanged() const override { source_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { source_->visit_checked(see); }
  void read(std::uint64_t offset, MutableBytes out) const override {
    core::ByteVector buffer;
    while (!out.empty()) {
      std::uint64_t skip = offset % width_;
      std::uint64_t count = std::min<std::uint64_t>(out.size(), kSwappedPart - skip);
      std::uint64_t whole = (skip + count + width_ - 1) / width_ * width_;
      buffer.resize(whole);
      source_->read(offset - skip, buffer);
      for (auto at = buffer.begin(); at != buffer.end(); at += width_) std::reverse(at, at + width_);
      std::copy_n(buffer.begin() + static_cast<std::ptrdiff_t>(skip), count, out.begin());
      out = out.subspan(count);
      offset += count;
    }
  }

 private:
  SourcePtr source_;
  unsigned width_;
};

}  // namespace

unsigned swap_width(core::DType dtype) {
  auto bytes = static_cast<unsigned>(core::bit_width(dtype)) / 8;
  if (core::is_complex(dtype)) bytes /= 2;
  return std::max(bytes, 1U);
}

SourcePtr byte_swapped(SourcePtr source, unsigned width) {
  if (width <= 1) return source;
  return std::make_shared<SwappedSource>(std::move(source), width);
}

}  // namespace ckpt
