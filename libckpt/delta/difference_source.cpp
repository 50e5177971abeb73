#include "libckpt/delta/difference_source.h"

#include <algorithm>

#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kPiece = 256 << 10;  // both pieces stay in the second cache

void add_bits(MutableBytes to, Bytes from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] ^= from[i];
}

class DifferenceSource final : public ByteSource {
 public:
  DifferenceSource(SourcePtr a, SourcePtr b, std::string file)
      : a_(std::move(a)), b_(std::move(b)), file_(std::move(file)) {}

  std::uint64_t size() const override { return a_->size(); }

  void read(std::uint64_t offset, MutableBytes out) const override {
    const Bytes ready = b_->memory();
    core::ByteVector other(ready.empty() ? std::min<std::uint64_t>(kPiece, out.size()) : 0);
    while (!out.empty()) {
      const MutableBytes piece = out.first(std::min<std::uint64_t>(kPiece, out.size()));
      a_->read(offset, piece);
      if (ready.empty()) {
        const MutableBytes from(other.data(), piece.size());
        of_b([&] { b_->read(offset, from); });
        add_bits(piece, from);
      } else {
        add_bits(piece, ready.subspan(offset, piece.size()));
      }
      out = out.subspan(piece.size());
      offset += piece.size();
    }
  }

  void require_unchanged() const override {
    a_->require_unchanged();
    of_b([&] { b_->require_unchanged(); });
  }
  void visit_checked(const CheckedVisitor& see) const override {
    a_->visit_checked(see);
    b_->visit_checked(see);
  }

 private:
  template <class Body>
  void of_b(Body body) const {
    file_.empty() ? body() : core::with_context(file_, body);
  }

  SourcePtr a_;
  SourcePtr b_;
  std::string file_;
};

}  // namespace

SourcePtr difference_source(SourcePtr a, SourcePtr b, std::string file) {
  return std::make_shared<DifferenceSource>(std::move(a), std::move(b), std::move(file));
}

}  // namespace ckpt::detail
