#include "libckpt/io/predicted_words.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/io/checksum.h"
#include "libckpt/io/context_codes.h"
#include "libckpt/io/low_rank.h"
#include "libckpt/io/miss_codes.h"
#include "libckpt/io/scratch.h"
#include "libckpt/io/word_planes.h"
#include "libckpt/io/word_prediction.h"

namespace ckpt {

namespace {

using core::ByteVector;
using detail::ByteCounts;
using detail::CodeLengths;
using detail::damaged_words;
using detail::Factors;
using detail::kContextStreams;
using detail::Prediction;

constexpr std::size_t kWord = 2;
constexpr std::size_t kBlockWords = kPredictedBlock / kWord;
constexpr std::size_t kPieceBytes = detail::kAtOnce * kWord;
constexpr std::size_t kContextsUsed = 12;
constexpr std::size_t kSum = 8;
constexpr std::size_t kFixedHead = 24;
constexpr std::size_t kBlockEntry = 4 + kSum;
constexpr std::uint64_t kFactorRun = detail::kMostCoded;
static_assert(kBlockWords <= detail::kMostInContexts && kBlockWords % detail::kAtOnce == 0);

std::uint64_t sum_of_bytes(Bytes bytes) {
  return hash128(bytes).low;
}

std::size_t blocks_of(std::size_t words) {
  return (words + kBlockWords - 1) / kBlockWords;
}

/// As many as the streams of codes have in all.
std::size_t rounded_up(std::size_t count) {
  return (count + kContextStreams - 1) / kContextStreams * kContextStreams;
}

/// What foretells words of one matrix.
class Model {
 public:
  /// `rows` and `columns` are the factors of Factors.
  Model(const Prediction& how, std::uint64_t columns, Factors factors)
      : how_(how), columns_(columns), factors_(std::move(factors)), turned_(factors_.columns.size()) {
    how_.shift = factors_.shift;
    for (std::uint64_t j = 0; factors_.rank > 0 && j < columns_; ++j) {
      for (unsigned k = 0; k < factors_.rank; ++k) turned_[k * columns_ + j] = factors_.columns[j * factors_.rank + k];
    }
  }

  const Prediction& how() const { return how_; }
  const Factors& factors() const { return factors_; }
  /// Of at most kAtOnce words, of which word `first` is the first.
  void predict(std::uint64_t first, Bytes base, const detail::Predicted& out) const {
    const std::size_t count = base.size() / kWord;
    for (std::size_t done = 0; done < count;) {
      const std::uint64_t row = (first + done) / columns_, column = (first + done) % columns_;
      const bool still = factors_.rank == 0;
      const std::size_t part = still ? count : std::min<std::uint64_t>(columns_ - column, count - done);
      const detail::Moves moves{factors_.rows.data() + row * factors_.rank, turned_.data() + column, columns_,
                                factors_.rank};
      detail::prediction_kernels().predict(base.data() + done * kWord, moves, part, how_,
                                           {out.words + done, out.turned + done, out.places + done});
      done += part;
    }
    std::fill(out.places + count, out.places + rounded_up(count), out.places[count - 1]);
  }

 private:
  Prediction how_;
  std::uint64_t columns_;
  Factors factors_;
  std::vector<std::int16_t> turned_;  ///< all first factors of columns, then all second ones
};

/// Memory for what is known of kAtOnce words.
class PieceRoom {
 public:
  detail::Predicted predicted() { return {words_.data(), turned_.data(), places_.data()}; }
  std::uint16_t* misses() { return misses_.data(); }
  MutableBytes codes() { return codes_; }
  /// Places of codes that have more behind them, of the first `count` ones.
  std::span<const std::uint16_t> find_long(std::size_t count) {
    return {long_.data(),
            detail::prediction_kernels().find_large(codes_.data(), count, detail::kPlainMisses, long_.data())};
  }

 private:
  std::array<std::uint16_t, detail::kAtOnce> words_, turned_, places_, misses_;
  std::array<std::uint16_t, detail::kAtOnce + detail::kPastLarge> long_;
  std::array<std::byte, detail::kAtOnce> codes_;
};

/// What codes do not say, from the lowest bit of a byte up.
class RestWriter {
 public:
  void put(std::uint16_t rest, unsigned bits) {
    bits_ |= std::uint64_t{rest} << filled_;
    filled_ += bits;
    if (filled_ < 32) return;
    core::append_le(out_, static_cast<std::uint32_t>(bits_));
    bits_ >>= 32;
    filled_ -= 32;
  }
  Bytes finish() {
    for (; filled_ > 0; filled_ -= std::min(filled_, 8U), bits_ >>= 8)
      out_.push_back(static_cast<std::byte>(bits_ & 0xff));
    return out_;
  }

 private:
  ByteVector out_;
  std::uint64_t bits_ = 0;
  unsigned filled_ = 0;
};

/// REQUIRES: kBehindCodes behind them.
class RestReader {
 public:
  explicit RestReader(Bytes in) : in_(in) {}
  std::uint16_t take(unsigned bits) {
    if (at_ + bits > in_.size() * 8) damaged_words("they end within a block");
    const auto word = core::load_le<std::uint64_t>(in_.data() + at_ / 8) >> at_ % 8;
    at_ += bits;
    return static_cast<std::uint16_t>(word & ((std::uint64_t{1} << bits) - 1));
  }
  bool at_end() const { return (at_ + 7) / 8 == in_.size(); }

 private:
  Bytes in_;
  std::size_t at_ = 0;  ///< in bits
};

/// How often each code occurs in each context.
struct Tally {
  std::vector<ByteCounts> counts = std::vector<ByteCounts>(kContextsUsed, ByteCounts{});

  std::vector<CodeLengths> lengths() const {
    std::vector<CodeLengths> out;
    for (const ByteCounts& of : counts) out.push_back(detail::code_lengths(of));
    return out;
  }
  /// Of codes, and of what stands behind them.
  std::uint64_t bits() const {
    std::uint64_t sum = 0;
    const std::vector<CodeLengths> codes = lengths();
    for (std::size_t c = 0; c < codes.size(); ++c) {
      sum += detail::coded_bits(counts[c], codes[c]);
      for (std::size_t i = 0; i < counts[c].size(); ++i)
        sum += std::uint64_t{counts[c][i]} * detail::kMissRanges[i].bits;
    }
    return sum;
  }
};

/// Both matrices while one is packed.
struct Pair {
  Bytes before;
  Bytes after;

  std::size_t words() const { return after.size() / kWord; }
  std::size_t pieces() const { return (after.size() + kPieceBytes - 1) / kPieceBytes; }
  /// Of kAtOnce words, the last one of what is left.
  Pair piece(std::size_t i) const {
    const std::size_t at = i * kPieceBytes, size = std::min<std::size_t>(kPieceBytes, after.size() - at);
    return {before.subspan(at, size), after.subspan(at, size)};
  }
};

/// Brings both near the processor, while others are used.
void fetch(const Pair& pair) {
  for (std::size_t at = 0; at < pair.after.size(); at += 64) {
    __builtin_prefetch(pair.before.data() + at);
    __builtin_prefetch(pair.after.data() + at);
  }
}

/// Codes of piece `i` into the room, and its misses. Returns how many there are; `longer` are the places of those that
/// have more behind them.
std::size_t find_codes(const Pair& pair, std::size_t i, const Model& model, PieceRoom& room,
                       std::span<const std::uint16_t>& longer) {
  const Pair piece = pair.piece(i);
  if (i + 1 < pair.pieces()) fetch(pair.piece(i + 1));
  model.predict(i * detail::kAtOnce, piece.before, room.predicted());
  detail::prediction_kernels().misses(piece.after.data(), room.predicted(), piece.words(), room.misses(),
                                      reinterpret_cast<std::uint8_t*>(room.codes().data()), detail::kPlainMisses);
  longer = room.find_long(piece.words());
  for (std::uint16_t k : longer) {
    room.codes()[k] = static_cast<std::byte>(detail::miss_code(room.misses()[k]));
  }
  return piece.words();
}

/// Every how many pieces are counted of so many.
std::size_t tally_step(std::size_t pieces) {
  constexpr std::size_t kEnough = 32;
  return std::max<std::size_t>(1, pieces / kEnough);
}

/// Of every so many pieces. What occurs in none of them is found in others, as a miss by any number.
Tally tally_of(const Pair& pair, const Model& model, std::size_t every) {
  Tally tally, odd;  // so that a count need not wait for the one before
  for (ByteCounts& counts : tally.counts) counts[detail::kAnyMiss] = 1;
  PieceRoom room;
  std::span<const std::uint16_t> longer;
  for (std::size_t i = 0; i < pair.pieces(); i += every) {
    const std::size_t count = find_codes(pair, i, model, room, longer);
    const std::uint16_t* places = room.predicted().places;
    for (std::size_t k = 0; k < count; ++k) {
      Tally& of = k % 2 == 0 ? tally : odd;
      ++of.counts[places[k] >> detail::kContextAt][static_cast<std::size_t>(room.codes()[k])];
    }
  }
  for (std::size_t c = 0; c < kContextsUsed; ++c) {
    for (std::size_t i = 0; i < odd.counts[c].size(); ++i) tally.counts[c][i] += odd.counts[c][i];
  }
  return tally;
}

/// The highest exponent that is not rare among the words.
int top_exponent(Bytes words) {
  constexpr std::size_t kEvery = 61;
  constexpr std::size_t kRare = 512;
  std::array<std::size_t, 256> counts = {};
  std::size_t seen = 0;
  for (std::size_t i = 0; i < words.size() / kWord; i += kEvery, ++seen) {
    ++counts[core::load_le<std::uint16_t>(words.data() + kWord * i) >> 7 & 0xff];
  }
  int top = 255;
  for (std::size_t above = 0; top > 0; --top) {
    above += counts[static_cast<std::size_t>(top)];
    if (above * kRare > seen) break;
  }
  return top;
}

/// In runs, all in the codes of one table.
void append_factors(ByteVector& out, const Factors& factors) {
  ByteVector bytes;
  for (const auto* part : {&factors.rows, &factors.columns}) {
    for (std::int8_t factor : *part) bytes.push_back(static_cast<std::byte>(factor + detail::kMostFactor));
  }
  ByteCounts counts = {};
  for (std::byte byte : bytes) ++counts[static_cast<std::size_t>(byte)];
  const CodeLengths lengths = detail::code_lengths(counts);
  detail::append_lengths(out, lengths);
  const detail::ByteEncoder encoder(lengths);
  for (std::size_t at = 0; at < bytes.size(); at += kFactorRun) {
    encoder.append(out, Bytes(bytes).subspan(at, std::min<std::size_t>(kFactorRun, bytes.size() - at)));
  }
}

struct Fitted {
  Model model;
  std::vector<CodeLengths> lengths;
};

/// With factors where they save more than they take.
Fitted fitted_to(const Pair& pair, std::uint64_t columns, const detail::Directions* directions,
                 const detail::Bring& bring) {
  Factors factors = detail::find_factors(pair.before, pair.after, columns, directions, bring);
  if (bring) bring(pair.after.size());
  const Prediction how{0, top_exponent(pair.before), kContextsUsed};
  Model still(how, columns, {});
  const std::size_t step = tally_step(pair.pieces());
  const Tally tally = tally_of(pair, still, step);
  if (factors.rank == 0) return {std::move(still), tally.lengths()};
  ByteVector packed;
  append_factors(packed, factors);
  Model moving(how, columns, std::move(factors));
  const Tally moved = tally_of(pair, moving, step);
  if (moved.bits() + packed.size() * 8 / step < tally.bits()) return {std::move(moving), moved.lengths()};
  return {std::move(still), tally.lengths()};
}

/// Blocks while they are packed.
class BlockWriter {
 public:
  BlockWriter(const Pair& pair, const Model& model, const std::vector<CodeLengths>& lengths)
      : pair_(pair), model_(model), encoder_(lengths, detail::kAnyMiss), codes_(encoder_) {}

  void append(ByteVector& out, std::size_t block) {
    constexpr std::size_t kPieces = kPredictedBlock / kPieceBytes;
    RestWriter rest;
    for (std::size_t i = block * kPieces; i < std::min((block + 1) * kPieces, pair_.pieces()); ++i) {
      std::span<const std::uint16_t> longer;
      const std::size_t count = find_codes(pair_, i, model_, room_, longer);
      const MutableBytes codes = room_.codes().first(rounded_up(count));
      std::fill(codes.begin() + static_cast<std::ptrdiff_t>(count), codes.end(), codes[count - 1]);
      if (codes_.put(codes, room_.predicted().places)) longer = room_.find_long(count);
      for (std::uint16_t k : longer) {
        const auto code = static_cast<std::uint8_t>(codes[k]);
        rest.put(detail::miss_rest(room_.misses()[k], code), detail::kMissRanges[code].bits);
      }
    }
    codes_.finish(out);
    core::append(out, rest.finish());
  }

 private:
  const Pair& pair_;
  const Model& model_;
  detail::ContextEncoder encoder_;
  detail::ContextWriter codes_;
  PieceRoom room_;
};

}  // namespace

bool has_factors(std::uint64_t bytes, std::uint64_t columns) {
  return detail::can_have_factors(bytes, columns);
}

std::shared_ptr<const detail::Directions> common_directions(Bytes before, Bytes after, std::uint64_t columns) {
  const detail::NearestRounding rounding;
  return detail::find_directions(before, after, columns);
}

ByteVector pack_predicted(Bytes before, Bytes after, std::uint64_t columns, const detail::Directions* directions,
                          const std::function<void(std::uint64_t end)>& bring) {
  const detail::NearestRounding rounding;
  const Pair pair{before, after};
  const auto [model, lengths] = fitted_to(pair, columns, directions, bring);
  ByteVector out(kFixedHead);
  out.reserve(after.size() / 4);
  core::store_le(out.data() + 12, static_cast<std::uint32_t>(pair.words()));
  core::store_le(out.data() + 16, static_cast<std::uint32_t>(columns));
  out[20] = static_cast<std::byte>(lengths.size());
  out[21] = static_cast<std::byte>(model.how().top);
  out[22] = static_cast<std::byte>(model.factors().rank);
  out[23] = static_cast<std::byte>(model.how().shift);
  for (const CodeLengths& of : lengths) detail::append_lengths(out, of);
  if (model.factors().rank > 0) append_factors(out, model.factors());
  std::size_t entry = out.size();
  out.resize(entry + blocks_of(pair.words()) * kBlockEntry);
  const std::size_t head = out.size();
  core::store_le(out.data() + kSum, static_cast<std::uint32_t>(head));
  BlockWriter blocks(pair, model, lengths);
  for (std::size_t i = 0; i < blocks_of(pair.words()); ++i, entry += kBlockEntry) {
    const std::size_t begin = out.size();
    blocks.append(out, i);
    core::store_le(out.data() + entry, static_cast<std::uint32_t>(out.size() - begin));
    core::store_le(out.data() + entry + 4, sum_of_bytes(Bytes(out).subspan(begin)));
  }
  core::store_le(out.data(), sum_of_bytes(Bytes(out).first(head).subspan(kSum)));
  return out;
}

bool prediction_pays(Bytes before, Bytes after) {
  constexpr std::uint64_t kLeastSaved = 28;  // one such part of the words: what takes longer must save room
  ByteVector differences(before.begin(), before.end());
  subtract_words(after, kWord, differences);
  const Pair pair{before, after};
  const Prediction how{0, top_exponent(before), kContextsUsed};
  const std::uint64_t bits = tally_of(pair, Model(how, pair.words(), {}), 1).bits();
  // In whole numbers, so that one that saves just as much is foretold on every processor.
  return kLeastSaved * bits + 8 * after.size() <= kLeastSaved * 8 * pack_words(differences, kWord).size();
}

struct PredictedWords::Head {
  struct Block {
    std::uint64_t at;
    std::uint32_t size;
    std::uint64_t checksum;
  };
  const ByteSource& in;
  detail::ContextDecoder decoder;
  Model model;
  std::vector<Block> blocks;

  /// Bytes of the block, room behind which is there.
  void read(std::size_t i, MutableBytes out) const {
    in.read(blocks[i].at, out);
    if (sum_of_bytes(out) == blocks[i].checksum) return;
    damaged_words("the checksum of block " + std::to_string(i) + " of " + std::to_string(blocks.size()) +
                  " is another one");
  }
  void add(std::size_t i, MutableBytes words, PieceRoom& room) const;
};

namespace {

[[noreturn]] void too_large(const std::string& what, std::uint64_t is, std::uint64_t most) {
  damaged_words("their " + what + " is " + std::to_string(is) + " where " + std::to_string(most) + " is the most");
}

/// The parts of a head, whose checksum was compared.
class HeadReader {
 public:
  explicit HeadReader(Bytes head) : in_(head.subspan(kFixedHead)), fixed_(head.first(kFixedHead)) {}

  std::size_t words() const { return core::load_le<std::uint32_t>(fixed_.data() + 12); }
  std::vector<CodeLengths> take_lengths() {
    const auto contexts = static_cast<std::size_t>(fixed_[20]);
    if (contexts == 0 || contexts > detail::kMostContexts) damaged_words("their contexts are none or too many");
    std::vector<CodeLengths> lengths;
    for (std::size_t c = 0; c < contexts; ++c) lengths.push_back(detail::take_lengths(in_));
    return lengths;
  }
  Model take_model(std::size_t contexts) {
    const std::uint64_t columns = core::load_le<std::uint32_t>(fixed_.data() + 16);
    if (columns == 0) damaged_words("their rows have no words");
    if (columns > words()) too_large("number of columns", columns, words());
    const Prediction how{0, static_cast<int>(fixed_[21]), static_cast<int>(contexts)};
    return {how, columns, take_factors(columns)};
  }
  Bytes left() const { return in_; }

 private:
  Factors take_factors(std::uint64_t columns) {
    Factors factors;
    factors.rank = static_cast<unsigned>(fixed_[22]);
    factors.shift = static_cast<int>(fixed_[23]);
    if (factors.rank > detail::kMostRank) too_large("rank", factors.rank, detail::kMostRank);
    if (factors.shift > detail::kMostShift)
      too_large("shift", static_cast<unsigned>(factors.shift), detail::kMostShift);
    if (factors.rank == 0) return factors;
    const std::uint64_t rows = (words() + columns - 1) / columns;
    const std::uint64_t count = (rows + columns) * factors.rank;
    if (count > words()) too_large("number of factors", count, words());
    const detail::ByteDecoder decoder(detail::take_lengths(in_));
    ByteVector bytes(count + detail::kPastBytes);
    for (std::uint64_t at = 0; at < count; at += kFactorRun) {
      decoder.take(in_, MutableBytes(bytes).subspan(at, std::min(kFactorRun, count - at)));
    }
    const Bytes read = Bytes(bytes).first(count);
    factors.rows = factors_in(read.first(rows * factors.rank));
    factors.columns = factors_in(read.subspan(rows * factors.rank));
    return factors;
  }

  static std::vector<std::int8_t> factors_in(Bytes bytes) {
    std::vector<std::int8_t> out(bytes.size());
    std::uint8_t most = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(bytes[i]);
      most = std::max(most, byte);
      out[i] = static_cast<std::int8_t>(byte - detail::kMostFactor);
    }
    if (most > 2 * detail::kMostFactor) too_large("largest factor", most - detail::kMostFactor, detail::kMostFactor);
    return out;
  }

  Bytes in_;
  Bytes fixed_;
};

/// The head of packed words; nothing where none begins. `size` is that of the words.
std::optional<ByteVector> head_at(const ByteSource& in, std::uint64_t offset, std::uint64_t size) {
  if (size < kFixedHead) return std::nullopt;
  ByteVector head(kFixedHead);
  in.read(offset, head);
  const auto length = core::load_le<std::uint32_t>(head.data() + kSum);
  const auto words = core::load_le<std::uint32_t>(head.data() + kSum + 4);
  if (length < kFixedHead || length > size || words != size / kWord || words == 0) return std::nullopt;
  head.resize(length);
  in.read(offset + kFixedHead, MutableBytes(head).subspan(kFixedHead));
  if (sum_of_bytes(Bytes(head).subspan(kSum)) != core::load_le<std::uint64_t>(head.data())) return std::nullopt;
  return head;
}

}  // namespace

PredictedWords::PredictedWords(std::unique_ptr<const Head> head) : head_(std::move(head)) {}
PredictedWords::PredictedWords(PredictedWords&&) noexcept = default;
PredictedWords::~PredictedWords() = default;

std::optional<PredictedWords> PredictedWords::find(const ByteSource& in, std::uint64_t offset, std::uint64_t size) {
  const std::optional<ByteVector> head = head_at(in, offset, size);
  if (!head) return std::nullopt;
  HeadReader reader(*head);
  const std::vector<CodeLengths> lengths = reader.take_lengths();
  Model model = reader.take_model(lengths.size());
  std::vector<Head::Block> blocks(blocks_of(reader.words()));
  if (reader.left().size() != blocks.size() * kBlockEntry) damaged_words("their head has another size");
  std::uint64_t at = head->size();
  const std::byte* entry = reader.left().data();
  for (Head::Block& block : blocks) {
    block = {offset + at, core::load_le<std::uint32_t>(entry), core::load_le<std::uint64_t>(entry + 4)};
    if (block.size > size - at) damaged_words("they end within a block");
    at += block.size;
    entry += kBlockEntry;
  }
  return PredictedWords(
      std::unique_ptr<const Head>(new Head{in, detail::ContextDecoder(lengths), std::move(model), std::move(blocks)}));
}

void PredictedWords::Head::add(std::size_t i, MutableBytes words, PieceRoom& room) const {
  const detail::Scratch packed(blocks[i].size + detail::kBehindCodes);
  Bytes left = packed.bytes().first(blocks[i].size);
  read(i, packed.bytes().first(blocks[i].size));
  std::ranges::fill(packed.bytes().last(detail::kBehindCodes), std::byte{0});
  detail::ContextStreams streams = detail::ContextDecoder::open(left);
  RestReader rest(left);
  const detail::Predicted& predicted = room.predicted();
  for (std::size_t first = i * kBlockWords; !words.empty(); first += detail::kAtOnce) {
    const MutableBytes piece = words.first(std::min(kPieceBytes, words.size()));
    const std::size_t count = piece.size() / kWord;
    model.predict(first, piece, predicted);
    decoder.take(streams, predicted.places, room.codes().first(rounded_up(count)));
    detail::prediction_kernels().restore(room.codes().data(), predicted, count, piece.data());
    for (std::uint16_t k : room.find_long(count)) {
      const auto code = static_cast<std::uint8_t>(room.codes()[k]);
      const std::uint16_t miss = detail::miss_of(code, rest.take(detail::kMissRanges[code].bits));
      core::store_le(piece.data() + k * kWord, detail::restored_word(predicted.words[k], predicted.turned[k], miss));
    }
    words = words.subspan(piece.size());
  }
  if (!rest.at_end()) damaged_words("bytes of a block are left over");
}

void PredictedWords::add(std::uint64_t at, MutableBytes words) const {
  const detail::NearestRounding rounding;
  PieceRoom room;
  for (std::size_t i = at / kPredictedBlock; !words.empty(); ++i) {
    const MutableBytes block = words.first(std::min<std::size_t>(kPredictedBlock, words.size()));
    head_->add(i, block, room);
    words = words.subspan(block.size());
  }
}

}  // namespace ckpt
