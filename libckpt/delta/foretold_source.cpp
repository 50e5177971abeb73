#include "libckpt/delta/foretold_source.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "libckpt/io/checked_source.h"
#include "libckpt/io/packed_differences.h"
#include "libckpt/io/predicted_words.h"
#include "libckpt/io/scratch.h"
#include "libckpt/io/word_planes.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::uint64_t kWord = 2;
constexpr std::uint64_t kPart = 2ULL << 20;  ///< so large that factors take little of it, and near the processor
constexpr std::uint64_t kSample = 32ULL << 10;
constexpr std::uint64_t kSamples = 8;
constexpr std::uint64_t kLeast = 64ULL << 10;
constexpr std::uint64_t kDirectionRows = 256;  ///< read for directions, of which those are found fast and well

class ForetoldSource final : public TrimmedBytes {
 public:
  ForetoldSource(SourcePtr from, SourcePtr to, const ForetoldParts& parts, std::string file, PassingHashes passing)
      : from_(std::move(from)),
        to_(std::move(to)),
        parts_(parts),
        file_(std::move(file)),
        passing_(std::move(passing)) {}

  std::uint64_t size() const override { return to_->size(); }
  std::uint64_t part() const override { return parts_.bytes; }
  core::ByteVector trimmed_part(std::uint64_t begin) const override { return packed_part(begin, passing_); }
  void read(std::uint64_t offset, MutableBytes out) const override {
    while (!out.empty()) {
      const std::uint64_t begin = offset / part() * part();
      const std::uint64_t length = std::min(part(), size() - begin);
      const MutableBytes piece = out.first(std::min<std::uint64_t>(begin + length - offset, out.size()));
      if (piece.size() == length) {
        make(begin, piece);
      } else {
        const std::shared_ptr<const core::ByteVector> made = known(begin, length);
        std::copy_n(made->begin() + static_cast<std::ptrdiff_t>(offset - begin), piece.size(), piece.begin());
      }
      out = out.subspan(piece.size());
      offset += piece.size();
    }
  }
  void require_unchanged() const override {
    to_->require_unchanged();
    in_base([&] { from_->require_unchanged(); });
  }
  void visit_checked(const CheckedVisitor& see) const override {
    to_->visit_checked(see);
    from_->visit_checked(see);
  }

 private:
  template <class Body>
  void in_base(const Body& body) const {
    file_.empty() ? body() : core::with_context(file_, body);
  }

  core::ByteVector packed_part(std::uint64_t begin, const PassingHashes& passing) const {
    const std::uint64_t length = std::min(part(), size() - begin);
    PassingPart before(from_, begin, length, passing.from), after(to_, begin, length, passing.to);
    const auto bring = [&](std::uint64_t end) {
      in_base([&] { before.bring(end); });
      after.bring(end);
    };
    const std::uint64_t columns = std::min(parts_.columns, length / kWord);
    core::ByteVector packed = pack_predicted(before.bytes(), after.bytes(), columns, directions(), bring);
    if (packed.size() <= length) return packed;
    packed.assign(after.bytes().begin(), after.bytes().end());
    subtract_words(before.bytes(), kWord, packed);
    return packed;
  }

  void make(std::uint64_t begin, MutableBytes out) const {
    const core::ByteVector packed = packed_part(begin, {});
    std::memcpy(out.data(), packed.data(), packed.size());
    std::memset(out.data() + packed.size(), 0, out.size() - packed.size());
  }

  /// Of some rows of the whole tensor, so that all parts have the same ones, whichever is made first.
  const Directions* directions() const {
    std::call_once(directions_once_, [&] {
      const std::uint64_t row = parts_.columns * kWord, rows = size() / row;
      if (!has_factors(part(), parts_.columns)) return;  // rows may be as long as parts
      const std::uint64_t count = std::min(rows, kDirectionRows) / 2 * 2;
      core::ByteVector before(count * row), after(count * row);
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t at = rows * i / count * row;
        in_base([&] { unchecked(*from_).read(at, MutableBytes(before).subspan(i * row, row)); });
        unchecked(*to_).read(at, MutableBytes(after).subspan(i * row, row));
      }
      if (count > 0) directions_ = common_directions(before, after, parts_.columns);
    });
    return directions_.get();
  }

  /// Readers that take less than a part take the next bytes of the same one most often.
  std::shared_ptr<const core::ByteVector> known(std::uint64_t begin, std::uint64_t length) const {
    const std::lock_guard lock(mutex_);
    if (made_ != nullptr && made_at_ == begin) return made_;
    auto made = std::make_shared<core::ByteVector>(length);
    make(begin, *made);
    made_at_ = begin;
    return made_ = std::move(made);
  }

  SourcePtr from_;
  SourcePtr to_;
  ForetoldParts parts_;
  std::string file_;
  PassingHashes passing_;
  mutable std::once_flag directions_once_;
  mutable std::shared_ptr<const Directions> directions_;
  mutable std::mutex mutex_;
  mutable std::uint64_t made_at_ = 0;
  mutable std::shared_ptr<const core::ByteVector> made_;
};

}  // namespace

ForetoldParts foretold_parts(const core::Shape& shape) {
  if (shape.empty()) return {};
  std::uint64_t columns = 1;
  const auto rows = static_cast<std::uint64_t>(shape[0]);
  for (std::size_t d = 1; d < shape.size(); ++d) {
    columns *= static_cast<std::uint64_t>(shape[d]);
    if (columns > kPart / kWord) return {};
  }
  if (rows * columns * kWord < kLeast) return {};
  // As many parts of equal rows leave the last one no smaller than need be.
  const std::uint64_t most = std::clamp<std::uint64_t>(kPart / kWord / columns, 1, rows);
  const std::uint64_t count = (rows + most - 1) / most;
  return {(rows + count - 1) / count * columns * kWord, columns == 1 ? rows : columns};
}

bool foretelling_pays(const ByteSource& from, const ByteSource& to) {
  const std::uint64_t count = std::min(kSamples, to.size() / kSample);
  core::ByteVector before(count * kSample), after(count * kSample);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = (to.size() - kSample) / std::max<std::uint64_t>(1, count - 1) * i / kWord * kWord;
    unchecked(from).read(at, MutableBytes(before).subspan(i * kSample, kSample));
    unchecked(to).read(at, MutableBytes(after).subspan(i * kSample, kSample));
  }
  return prediction_pays(before, after);
}

SourcePtr foretold_source(SourcePtr from, SourcePtr to, const ForetoldParts& parts, std::string file,
                          PassingHashes passing) {
  return std::make_shared<ForetoldSource>(std::move(from), std::move(to), parts, std::move(file), std::move(passing));
}

std::optional<PredictedWords> find_foretold(const ByteSource& change, std::uint64_t part, std::uint64_t offset) {
  const std::uint64_t begin = offset / part * part;
  const ByteSource& bytes = unchecked(change);
  return PredictedWords::find(bytes, begin, std::min(part, bytes.size() - begin));
}

bool add_foretold(const ByteSource& change, std::uint64_t part, std::uint64_t offset, MutableBytes words) {
  const std::optional<PredictedWords> packed = find_foretold(change, part, offset);
  if (packed) packed->add(offset % part, words);
  return packed.has_value();
}

BlockRange whole_blocks(std::uint64_t part, std::uint64_t offset, std::uint64_t size, std::uint64_t all) {
  if (part == 0) return {offset, offset + size};
  const std::uint64_t from = offset / part * part;
  const std::uint64_t begin = from + (offset - from) / kPredictedBlock * kPredictedBlock;
  const std::uint64_t blocks = (offset + size - from + kPredictedBlock - 1) / kPredictedBlock;
  return {begin, std::min({from + blocks * kPredictedBlock, from + part, all})};
}

}  // namespace ckpt::detail
