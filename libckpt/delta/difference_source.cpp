#include "libckpt/delta/difference_source.h"

#include <algorithm>
#include <vector>

#include "libckpt/io/scratch.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kPiece = 4ULL << 20;  // whole chunks of packed tensors, which are then unpacked in place

void add_bits(MutableBytes to, Bytes from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] ^= from[i];
}

/// The exclusive or of two sources or more. A difference to a difference adds to its list, so that a chain of them
/// takes one piece of memory and not one a link.
class DifferenceSource final : public ByteSource {
 public:
  DifferenceSource(SourcePtr a, const SourcePtr& b, const std::string& file) {
    parts_.push_back({std::move(a), ""});
    const auto* chain = dynamic_cast<const DifferenceSource*>(b.get());
    if (chain == nullptr) {
      parts_.push_back({b, file});
      return;
    }
    parts_.insert(parts_.end(), chain->parts_.begin(), chain->parts_.end());
    parts_[1].file = file;
  }

  std::uint64_t size() const override { return parts_[0].source->size(); }

  void read(std::uint64_t offset, MutableBytes out) const override {
    const Scratch other(std::min<std::uint64_t>(kPiece, out.size()));
    while (!out.empty()) {
      const MutableBytes piece = out.first(std::min<std::uint64_t>(kPiece, out.size()));
      parts_[0].source->read(offset, piece);
      for (std::size_t i = 1; i < parts_.size(); ++i) add_part(i, offset, piece, other.bytes().first(piece.size()));
      out = out.subspan(piece.size());
      offset += piece.size();
    }
  }

  void require_unchanged() const override {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      of_part(i, [&] { parts_[i].source->require_unchanged(); });
    }
  }
  void visit_checked(const CheckedVisitor& see) const override {
    for (const Part& part : parts_) part.source->visit_checked(see);
  }

 private:
  struct Part {
    SourcePtr source;
    std::string file;  ///< at fault where this one or one behind it is damaged; "" where that is said elsewhere
  };

  void add_part(std::size_t i, std::uint64_t offset, MutableBytes piece, MutableBytes room) const {
    const Bytes ready = parts_[i].source->memory();
    if (!ready.empty()) return add_bits(piece, ready.subspan(offset, piece.size()));
    of_part(i, [&] { parts_[i].source->read(offset, room); });
    add_bits(piece, room);
  }

  template <class Body>
  void of_part(std::size_t i, const Body& body, std::size_t from = 1) const {
    if (from > i) return body();
    const auto behind = [&] { of_part(i, body, from + 1); };
    parts_[from].file.empty() ? behind() : core::with_context(parts_[from].file, behind);
  }

  std::vector<Part> parts_;
};

}  // namespace

SourcePtr difference_source(SourcePtr a, SourcePtr b, std::string file) {
  return std::make_shared<DifferenceSource>(std::move(a), b, file);
}

}  // namespace ckpt::detail
