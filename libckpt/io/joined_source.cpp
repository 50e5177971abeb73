#include "libckpt/io/joined_source.h"

#include <algorithm>

#include "libcore/base/error.h"

namespace ckpt {
namespace {

class JoinedSource final : public ByteSource {
 public:
  explicit JoinedSource(std::vector<SourcePtr> parts) : parts_(std::move(parts)) {
    for (const SourcePtr& part : parts_) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + part->size());
  }

  std::uint64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  void require_unchanged() const override {
    for (const SourcePtr& part : parts_) part->require_unchanged();
  }
  void visit_checked(const CheckedVisitor& see) const override {
    for (const SourcePtr& part : parts_) part->visit_checked(see);
  }
  void read(std::uint64_t offset, MutableBytes out) const override {
    if (offset > size() || out.size() > size() - offset) {
      throw core::Error(core::ErrorCode::corrupt, "a read past the end of a tensor");
    }
    auto at = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), offset) - ends_.begin());
    while (!out.empty()) {
      std::uint64_t begin = ends_[at] - parts_[at]->size();
      std::uint64_t count = std::min<std::uint64_t>(out.size(), ends_[at] - offset);
      parts_[at]->read(offset - begin, out.first(count));
      out = out.subspan(count);
      offset += count;
      ++at;
    }
  }

 private:
  std::vector<SourcePtr> parts_;
  std::vector<std::uint64_t> ends_;  ///< of each part, in the whole
};

}  // namespace

SourcePtr joined(std::vector<SourcePtr> parts) {
  if (parts.size() == 1) return parts[0];
  return std::make_shared<JoinedSource>(std::move(parts));
}

}  // namespace ckpt
