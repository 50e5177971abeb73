#include "libckpt/analyze/why/concat_source.h"

#include <algorithm>

#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

class ConcatSource final : public ByteSource {
 public:
  explicit ConcatSource(std::vector<SourcePtr> parts) : parts_(std::move(parts)) {
    for (const SourcePtr& part : parts_) size_ += part->size();
  }
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, MutableBytes out) const override {
    if (offset > size_ || out.size() > size_ - offset) {
      throw core::Error(core::ErrorCode::corrupt, "a read reaches past the end of joined tensors");
    }
    for (const SourcePtr& part : parts_) {
      if (offset >= part->size()) {
        offset -= part->size();
        continue;
      }
      std::uint64_t count = std::min<std::uint64_t>(part->size() - offset, out.size());
      if (count == 0) return;
      part->read(offset, out.first(count));
      out = out.subspan(count);
      offset = 0;
    }
  }
  void require_unchanged() const override {
    for (const SourcePtr& part : parts_) part->require_unchanged();
  }

 private:
  std::vector<SourcePtr> parts_;
  std::uint64_t size_ = 0;
};

}  // namespace

SourcePtr concat(std::vector<SourcePtr> parts) {
  return std::make_shared<const ConcatSource>(std::move(parts));
}

}  // namespace ckpt::detail
