#include "libckpt/format/megatron/strips.h"

#include <cstring>
#include <numeric>

#include "libckpt/io/unit_source.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kBytesAtOnce = 1 << 20;

class Strips final : public UnitSource {
 public:
  Strips(std::vector<SourcePtr> parts, std::uint64_t rows, std::vector<std::uint64_t> widths, std::uint64_t width)
      : UnitSource(rows, width, kBytesAtOnce / width), parts_(std::move(parts)), widths_(std::move(widths)) {}

  void require_unchanged() const override {
    for (const SourcePtr& part : parts_) part->require_unchanged();
  }
  void visit_checked(const CheckedVisitor& see) const override {
    for (const SourcePtr& part : parts_) part->visit_checked(see);
  }

 private:
  void compute(std::uint64_t first, MutableBytes rows) const override {
    const std::uint64_t count = rows.size() / unit();
    core::ByteVector strip;
    std::uint64_t column = 0;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const std::uint64_t width = widths_[i];
      strip.resize(count * width);
      parts_[i]->read(first * width, strip);
      for (std::uint64_t row = 0; row < count; ++row) {
        std::memcpy(rows.data() + row * unit() + column, strip.data() + row * width, width);
      }
      column += width;
    }
  }

  std::vector<SourcePtr> parts_;
  std::vector<std::uint64_t> widths_;
};

}  // namespace

SourcePtr side_by_side(std::vector<SourcePtr> parts, std::uint64_t rows, std::vector<std::uint64_t> widths) {
  if (parts.size() == 1) return parts[0];
  const std::uint64_t width = std::accumulate(widths.begin(), widths.end(), std::uint64_t{0});
  return std::make_shared<Strips>(std::move(parts), rows, std::move(widths), width);
}

}  // namespace ckpt::detail
