#include "libckpt/delta/difference_source.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "libckpt/delta/foretold_source.h"
#include "libckpt/io/packed_differences.h"
#include "libckpt/io/predicted_words.h"
#include "libckpt/io/scratch.h"
#include "libckpt/io/word_planes.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kPiece = 4ULL << 20;  // whole chunks of packed tensors, which are then unpacked in place

template <class Body>
void in_file(const std::string& file, const Body& body) {
  file.empty() ? body() : core::with_context(file, body);
}

/// Calls body(piece, bytes of `source` for it) for pieces of `out`, with memory that is used again.
template <class Body>
void for_pieces(const ByteSource& source, std::uint64_t offset, MutableBytes out, const Body& body) {
  const Bytes ready = source.memory();
  const Scratch room(ready.empty() ? std::min<std::uint64_t>(kPiece, out.size()) : 0);
  while (!out.empty()) {
    const MutableBytes piece = out.first(std::min<std::uint64_t>(kPiece, out.size()));
    const MutableBytes read = room.bytes().first(ready.empty() ? piece.size() : 0);
    if (ready.empty()) source.read(offset, read);
    body(piece, ready.empty() ? Bytes(read) : ready.subspan(offset, piece.size()));
    out = out.subspan(piece.size());
    offset += piece.size();
  }
}

/// Bytes that are computed word by word: reads of parts of words are widened.
template <class Base>
class WordSource : public Base {
 public:
  explicit WordSource(std::uint32_t width) : width_(width) {}

  void read(std::uint64_t offset, MutableBytes out) const override {
    const std::uint64_t begin = offset / width_ * width_;
    const std::uint64_t end = (offset + out.size() + width_ - 1) / width_ * width_;
    if (end - begin == out.size()) return read_words(offset, out);
    core::ByteVector words(end - begin);
    read_words(begin, words);
    std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(offset - begin), out.size(), out.begin());
  }

 protected:
  std::uint32_t width() const { return width_; }
  virtual void read_words(std::uint64_t offset, MutableBytes out) const = 0;

 private:
  std::uint32_t width_;
};

class DifferenceSource final : public WordSource<DifferenceBytes> {
 public:
  DifferenceSource(SourcePtr from, SourcePtr to, std::uint32_t width, std::string file, PassingHashes passing)
      : WordSource(width),
        from_(std::move(from)),
        to_(std::move(to)),
        file_(std::move(file)),
        passing_(std::move(passing)) {}

  std::uint64_t size() const override { return to_->size(); }
  void require_unchanged() const override {
    to_->require_unchanged();
    in_file(file_, [&] { from_->require_unchanged(); });
  }
  void visit_checked(const CheckedVisitor& see) const override {
    to_->visit_checked(see);
    from_->visit_checked(see);
  }
  void read_to_save(std::uint64_t offset, MutableBytes out) const override {
    if (passing_.from == nullptr && passing_.to == nullptr) return read(offset, out);
    PassingPart before(from_, offset, out.size(), passing_.from), after(to_, offset, out.size(), passing_.to);
    in_file(file_, [&] { before.bring_all(); });
    after.bring_all();
    std::ranges::copy(after.bytes(), out.begin());
    subtract_words(before.bytes(), width(), out);
  }

 private:
  void read_words(std::uint64_t offset, MutableBytes out) const override {
    to_->read(offset, out);
    in_file(file_, [&] {
      for_pieces(*from_, offset, out, [&](MutableBytes to, Bytes from) { subtract_words(from, width(), to); });
    });
  }

  SourcePtr from_;
  SourcePtr to_;
  std::string file_;
  PassingHashes passing_;
};

/// Bytes and the differences that were added to them one after the other. A chain of them is one list: each piece takes
/// all of them while it is near the processor.
class SumSource final : public WordSource<ByteSource> {
 public:
  SumSource(const SourcePtr& to, SourcePtr difference, const Adding& how, std::string file,
            std::shared_ptr<TargetCheck> check)
      : WordSource(how.width), check_(std::move(check)) {
    if (const auto* chain = dynamic_cast<const SumSource*>(to.get())) {
      base_ = chain->base_;
      base_file_ = chain->base_file_;
      links_ = chain->links_;
      links_.back().file = std::move(file);
    } else {
      base_ = to;
      base_file_ = std::move(file);
    }
    const auto* packed = packed_differences(*difference);
    links_.push_back({std::move(difference), packed, how, ""});
    if (check_ != nullptr) check_->add(*this, size());
  }

  std::uint64_t size() const override { return base_->size(); }
  void read(std::uint64_t offset, MutableBytes out) const override {
    if (check_ == nullptr) return WordSource::read(offset, out);
    try {
      WordSource::read(offset, out);
    } catch (const core::Error&) {
      check_->require_base();  // what does not fit another base is not damaged
      throw;
    }
    check_->note(*this, offset, out);
  }
  void require_unchanged() const override {
    in_file(base_file_, [&] { base_->require_unchanged(); });
    for (const Link& link : links_) {
      in_file(link.file, [&] { link.difference->require_unchanged(); });
    }
    if (check_ != nullptr) check_->ended(*this);
  }
  void visit_checked(const CheckedVisitor& see) const override {
    base_->visit_checked(see);
    for (const Link& link : links_) link.difference->visit_checked(see);
  }

 private:
  struct Link {
    SourcePtr difference;
    const PackedDifferences* packed;  ///< the same without the check of its hash, where it lies in chunks
    Adding how;
    std::string file;  ///< at fault where it is damaged; "" where that is said elsewhere
  };

  /// What is unpacked without the check of its source must say itself whose bytes are damaged.
  template <class Body>
  static void unpack(const Link& link, const Body& body) {
    link.how.name.empty() ? body() : core::with_context(core::quote(link.how.name), body);
  }

  void read_words(std::uint64_t offset, MutableBytes out) const override {
    while (!out.empty()) {
      const std::uint64_t size = piece_at(offset, out.size());
      const MutableBytes piece = out.first(size);
      const BlockRange whole = whole_blocks(part(), offset, size, base_->size());
      if (whole.begin == offset && whole.end == offset + size) {
        make_piece(offset, piece);
      } else {
        const Scratch blocks(whole.end - whole.begin);
        make_piece(whole.begin, blocks.bytes());
        std::ranges::copy(blocks.bytes().subspan(offset - whole.begin, size), piece.begin());
      }
      out = out.subspan(size);
      offset += size;
    }
  }

  /// REQUIRES: within one part, and whole blocks of it.
  void make_piece(std::uint64_t offset, MutableBytes piece) const {
    const std::vector<PredictedWords> foretold = foretold_at(offset);
    if (!foretold.empty()) return make_blocks(foretold, offset, piece);
    in_file(base_file_, [&] { base_->read(offset, piece); });
    for (const Link& link : links_) {
      in_file(link.file, [&] { add(link, offset, piece); });
    }
  }

  /// Of all differences that part in which byte `offset` is, where its words are foretold in all of them.
  std::vector<PredictedWords> foretold_at(std::uint64_t offset) const {
    std::vector<PredictedWords> all;
    for (const Link& link : links_) {
      if (link.how.part == 0) return {};
      const std::size_t before = all.size();
      in_file(link.file, [&] {
        unpack(link, [&] {
          auto found = find_foretold(*link.difference, link.how.part, offset);
          if (found) all.push_back(std::move(*found));
        });
      });
      if (all.size() == before) return {};
    }
    return all;
  }

  /// Block after block, each of which takes all differences while it is near the processor.
  void make_blocks(const std::vector<PredictedWords>& foretold, std::uint64_t offset, MutableBytes piece) const {
    for (std::uint64_t within = offset % part(); !piece.empty();) {
      const MutableBytes block = piece.first(std::min<std::uint64_t>(kPredictedBlock, piece.size()));
      in_file(base_file_, [&] { base_->read(offset, block); });
      for (std::size_t i = 0; i < links_.size(); ++i) {
        in_file(links_[i].file, [&] { unpack(links_[i], [&] { foretold[i].add(within, block); }); });
      }
      piece = piece.subspan(block.size());
      offset += block.size();
      within += block.size();
    }
  }

  /// Of those whose words are foretold; all of one chain are cut alike, as their shape is the same.
  std::uint64_t part() const {
    const auto found = std::ranges::find_if(links_, [](const Link& link) { return link.how.part != 0; });
    return found == links_.end() ? 0 : found->how.part;
  }

  /// As the newest difference is cut; the others are most often cut alike. Other codecs may cut within a word, where
  /// a file says so: whole words all the same.
  std::uint64_t piece_at(std::uint64_t offset, std::uint64_t most) const {
    if (const std::uint64_t size = part()) return std::min({most, kPiece, size - offset % size});
    const PackedDifferences* packed = links_.back().packed;
    const std::uint64_t chunk = packed == nullptr ? kPiece : packed->chunk_end(offset) - offset;
    return std::min({most, kPiece, chunk % width() == 0 ? chunk : kPiece});
  }

  /// False where the difference is in none of the forms that are added while they are unpacked.
  static bool add_unpacked(const Link& link, std::uint64_t offset, MutableBytes to) {
    bool done = false;
    unpack(link, [&] {
      done = link.how.part != 0 && add_foretold(*link.difference, link.how.part, offset, to);
      if (done || link.packed == nullptr || link.how.bits) return;
      done = link.packed->add_to(offset, link.how.width, to);
    });
    return done;
  }

  void add(const Link& link, std::uint64_t offset, MutableBytes to) const {
    if (add_unpacked(link, offset, to)) return;
    for_pieces(*link.difference, offset, to, [&](MutableBytes piece, Bytes difference) {
      if (!link.how.bits) return add_words(difference, link.how.width, piece);
      for (std::size_t i = 0; i < piece.size(); ++i) piece[i] ^= difference[i];
    });
    // Whether a part is none that is foretold, or a damaged one, the checksum of the whole says.
    if (link.how.part != 0) link.difference->require_unchanged();
  }

  SourcePtr base_;
  std::string base_file_;
  std::vector<Link> links_;  ///< in the order in which they are added
  std::shared_ptr<TargetCheck> check_;
};

}  // namespace

SourcePtr difference_source(SourcePtr from, SourcePtr to, std::uint32_t width, std::string file,
                            PassingHashes passing) {
  return std::make_shared<DifferenceSource>(std::move(from), std::move(to), width, std::move(file), std::move(passing));
}

SourcePtr sum_source(SourcePtr to, SourcePtr difference, Adding how, std::string file,
                     std::shared_ptr<TargetCheck> check) {
  return std::make_shared<SumSource>(to, std::move(difference), how, std::move(file), std::move(check));
}

}  // namespace ckpt::detail
