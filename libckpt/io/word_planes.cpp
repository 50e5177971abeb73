#include "libckpt/io/word_planes.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "libckpt/io/byte_codes.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/codec.h"
#include "libckpt/io/scratch.h"
#include "libckpt/io/word_kernels.h"
#include "libcore/base/error.h"

namespace ckpt {

namespace {

using detail::ByteCounts;
using detail::ByteDecoder;
using detail::ByteEncoder;
using detail::CodeLengths;
using detail::damaged_words;
using detail::kPastBytes;
using detail::kSpread;
using detail::number_of;
using detail::of_width;
using detail::SpreadPlane;
using detail::word_kernels;

enum PlaneForm : std::uint8_t { kZero = 0, kStored = 1, kCoded = 2, kMasked = 3 };

constexpr std::size_t kChecksum = 8;
constexpr std::size_t kWordHead = kChecksum + 4;  ///< and how many bytes the words are
constexpr std::size_t kWordBlock = 16384;         ///< words; their planes stay near the processor
constexpr std::size_t kWordBlockHead = 4;         ///< bytes that state the size of one
constexpr std::size_t kMask = detail::kBytesOfMask;
static_assert(kWordBlock <= detail::kMostCoded);

std::uint64_t checksum(Bytes bytes) {
  return hash128(bytes).low;
}

std::size_t block_count(std::size_t words) {
  return (words + kWordBlock - 1) / kWordBlock;
}

std::size_t mask_size(std::size_t count) {
  return (count + kMask - 1) / kMask;
}

/// Bit i says whether byte i of eight is not zero.
std::byte mask_of(std::uint64_t bytes) {
  constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  const std::uint64_t there = (((bytes & kLow) + kLow) | bytes) & ~kLow;
  return static_cast<std::byte>((there >> 7) * 0x0102040810204080 >> 56);
}

/// Of all of them; the last mask may be for fewer than eight.
void put_masks(Bytes plane, MutableBytes masks) {
  for (std::size_t i = 0; i < masks.size(); ++i) {
    std::byte bytes[kMask] = {};
    std::copy_n(plane.begin() + static_cast<std::ptrdiff_t>(i * kMask), std::min(kMask, plane.size() - i * kMask),
                bytes);
    masks[i] = mask_of(core::load_le<std::uint64_t>(bytes));
  }
}

/// The bytes that are not zero. REQUIRES: `out` has room for all.
Bytes without_zeros(Bytes plane, MutableBytes out) {
  std::size_t count = 0;
  for (std::byte byte : plane) {
    out[count] = byte;
    count += byte != std::byte{0} ? 1 : 0;
  }
  return out.first(count);
}

/// Runs of the same byte are counted in four tables, so that no count waits for the one before.
ByteCounts counts_of(Bytes bytes) {
  ByteCounts counts[4] = {};
  for (std::size_t i = 0; i < bytes.size(); ++i) ++counts[i % 4][static_cast<std::size_t>(bytes[i])];
  for (std::size_t i = 0; i < counts[0].size(); ++i) counts[0][i] += counts[1][i] + counts[2][i] + counts[3][i];
  return counts[0];
}

/// How one plane of a chunk is packed.
struct PlanePacking {
  PlaneForm form = kZero;
  CodeLengths bytes = {};
  CodeLengths masks = {};
};

/// A mask costs time, so it must save one such part. In whole numbers, the same on every processor.
constexpr std::uint64_t kMaskWorthwhile = 5;
constexpr std::uint64_t kMostOfCodes = 129;  ///< bytes of the lengths of codes
constexpr std::uint64_t kMostOfHead = 12;    ///< bytes that four streams take beside their codes

PlanePacking choose(Bytes plane, ByteVector& room) {
  ByteCounts counts = counts_of(plane);
  if (counts[0] == plane.size()) return {};
  const std::uint64_t stored = plane.size() * 8;
  const std::uint64_t around = 8 * (kMostOfCodes + block_count(plane.size()) * kMostOfHead);
  PlanePacking coded{kCoded, detail::code_lengths(counts), {}};
  const std::uint64_t coded_bits = detail::coded_bits(counts, coded.bytes) + around;
  room.resize(mask_size(plane.size()));
  put_masks(plane, room);
  const ByteCounts mask_counts = counts_of(room);
  counts[0] = 0;
  PlanePacking masked{kMasked, detail::code_lengths(counts), detail::code_lengths(mask_counts)};
  const std::uint64_t masked_bits =
      detail::coded_bits(counts, masked.bytes) + detail::coded_bits(mask_counts, masked.masks) + 2 * around;
  const bool mask_pays = kMaskWorthwhile * masked_bits < (kMaskWorthwhile - 1) * coded_bits;
  const PlanePacking& best = mask_pays ? masked : coded;
  return std::min(masked_bits, coded_bits) < stored - stored / 32 ? best : PlanePacking{kStored, {}, {}};
}

/// number_of() the other way.
template <class Word>
Word difference_of(Word number) {
  constexpr int kTop = 8 * sizeof(Word) - 1;
  return static_cast<Word>(static_cast<Word>(number << 1) ^
                           static_cast<Word>(Word{0} - static_cast<Word>(number >> kTop)));
}

/// Replaces every word of `to` by what `of` makes of it and the word of `from`.
template <class Word, class Of>
void for_words(Bytes from, MutableBytes to, const Of& of) {
  for (std::size_t at = 0; at < to.size(); at += sizeof(Word)) {
    std::byte* word = to.data() + at;
    core::store_le(word, of(core::load_le<Word>(word), core::load_le<Word>(from.data() + at)));
  }
}

std::size_t room_of(std::uint32_t width, std::uint64_t size) {
  const std::size_t block = std::min<std::uint64_t>(kWordBlock, size / width);
  return (width + 2) * (block + 2 * kPastBytes);
}

}  // namespace

std::uint64_t packed_words_bound(std::uint64_t size, std::uint32_t width) {
  return kWordHead + size + std::uint64_t{width} + block_count(size / width) * kWordBlockHead;
}

namespace {

/// One plane while its blocks are packed.
class PlaneWriter {
 public:
  PlaneWriter(const PlanePacking& how) : form_(how.form), bytes_(how.bytes), masks_(how.masks) {}
  void append(ByteVector& out, Bytes block, ByteVector& room) const {
    if (form_ == kStored) core::append(out, block);
    if (form_ == kCoded) bytes_.append(out, block);
    if (form_ != kMasked) return;
    room.resize(block.size());
    const MutableBytes masks = MutableBytes(room).first(mask_size(block.size()));
    put_masks(block, masks);
    masks_.append(out, masks);
    bytes_.append(out, without_zeros(block, room));
  }

 private:
  PlaneForm form_;
  ByteEncoder bytes_;
  ByteEncoder masks_;
};

void append_head(ByteVector& out, const PlanePacking& plane) {
  out.push_back(static_cast<std::byte>(plane.form));
  if (plane.form >= kCoded) detail::append_lengths(out, plane.bytes);
  if (plane.form == kMasked) detail::append_lengths(out, plane.masks);
}

}  // namespace

ByteVector pack_words(Bytes words, std::uint32_t width) {
  const std::size_t n = words.size() / width;
  const detail::Scratch scratch(words.size());
  const MutableBytes planes = scratch.bytes();
  shuffle(words, width, planes);
  ByteVector out(kWordHead);
  out.reserve(packed_words_bound(words.size(), width));
  ByteVector room;
  std::vector<PlaneWriter> writers;
  for (std::uint32_t p = 0; p < width; ++p) {
    const PlanePacking packing = choose(planes.subspan(p * n, n), room);
    append_head(out, packing);
    writers.emplace_back(packing);
  }
  std::size_t size_at = out.size();
  out.resize(size_at + block_count(n) * kWordBlockHead);
  for (std::size_t at = 0; at < n; at += kWordBlock, size_at += kWordBlockHead) {
    const std::size_t begin = out.size();
    for (std::uint32_t p = 0; p < width; ++p) {
      writers[p].append(out, planes.subspan(p * n + at, std::min(kWordBlock, n - at)), room);
    }
    core::store_le(out.data() + size_at, static_cast<std::uint32_t>(out.size() - begin));
  }
  core::store_le(out.data() + kChecksum, static_cast<std::uint32_t>(words.size()));
  core::store_le(out.data(), checksum(Bytes(out).subspan(kChecksum)));
  return out;
}

namespace {

/// Unpacks them piece by piece, so that each is still near the processor when it is used.
class WordReader {
 public:
  /// Compares the checksum first. `packed` is used as long as the reader, `size` is that of the words in bytes.
  WordReader(Bytes packed, std::uint32_t width, std::uint64_t size);
  /// Block `i` into `out`. REQUIRES: there is one, and `out` has its size.
  void unpack(std::size_t i, MutableBytes out);
  /// Adds the block to the words there, as differences: the lowest bit of each is its sign.
  void add(std::size_t i, MutableBytes to);

 private:
  struct Plane {
    PlaneForm form = kZero;
    detail::ByteDecoder bytes;
    detail::ByteDecoder masks;
  };
  void take_heads(Bytes packed);
  /// The planes of a block of that many words, one behind the other.
  Bytes take_planes(std::size_t i, std::size_t count);
  void take_plane(const Plane& plane, MutableBytes out);
  void take_masked(const Plane& plane, MutableBytes out);
  /// Masks of `count` bytes into `masks`, which has room for eight zeros behind them. Returns how many are not zero.
  std::size_t take_masks(const Plane& plane, MutableBytes masks, std::size_t count);
  /// The plane without its zeros, in `room` or where it is packed.
  SpreadPlane take_spread(const Plane& plane, MutableBytes room, std::size_t count);
  void require_whole_block() const;

  std::uint32_t width_;
  std::vector<Bytes> blocks_;
  Bytes in_;  ///< what is left of a block while it is unpacked
  std::unique_ptr<Plane[]> planes_;
  detail::Scratch room_;
};

WordReader::WordReader(Bytes packed, std::uint32_t width, std::uint64_t size)
    : width_(width), blocks_(block_count(size / width)), planes_(new Plane[width]), room_(room_of(width, size)) {
  if (packed.size() < kWordHead) damaged_words("they end within their head");
  if (checksum(packed.subspan(kChecksum)) != core::load_le<std::uint64_t>(packed.data())) {
    damaged_words("their checksum is another one");
  }
  const auto stated = core::load_le<std::uint32_t>(packed.data() + kChecksum);
  if (stated != size) {
    damaged_words("they hold " + std::to_string(stated) + " bytes where " + std::to_string(size) + " are recorded");
  }
  take_heads(packed.subspan(kWordHead));
}

void WordReader::take_heads(Bytes packed) {
  in_ = packed;
  for (std::uint32_t p = 0; p < width_; ++p) {
    if (in_.empty()) damaged_words("they end within their head");
    const auto form = static_cast<PlaneForm>(in_[0]);
    if (form > kMasked) damaged_words("a plane has a form that this version does not know");
    in_ = in_.subspan(1);
    planes_[p].form = form;
    // In their place: a copy would take as long as many a block.
    if (form >= kCoded) std::construct_at(&planes_[p].bytes, detail::take_lengths(in_));
    if (form == kMasked) std::construct_at(&planes_[p].masks, detail::take_lengths(in_));
  }
  if (in_.size() / kWordBlockHead < blocks_.size()) damaged_words("they end within the sizes of their blocks");
  const Bytes sizes = in_.first(blocks_.size() * kWordBlockHead);
  in_ = in_.subspan(sizes.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const auto size = core::load_le<std::uint32_t>(sizes.data() + i * kWordBlockHead);
    if (size > in_.size()) damaged_words("they end within a block");
    blocks_[i] = in_.first(size);
    in_ = in_.subspan(size);
  }
  if (!in_.empty()) damaged_words(std::to_string(in_.size()) + " bytes follow their end");
}

Bytes WordReader::take_planes(std::size_t i, std::size_t count) {
  in_ = blocks_[i];
  const MutableBytes planes = room_.bytes().first(width_ * count);
  for (std::uint32_t p = 0; p < width_; ++p) take_plane(planes_[p], planes.subspan(p * count, count));
  require_whole_block();
  return planes;
}

void WordReader::require_whole_block() const {
  if (!in_.empty()) damaged_words(std::to_string(in_.size()) + " bytes of a block are left over");
}

void WordReader::unpack(std::size_t i, MutableBytes out) {
  unshuffle(take_planes(i, out.size() / width_), width_, out);
}

void WordReader::add(std::size_t i, MutableBytes to) {
  const std::size_t count = to.size() / width_;
  if (width_ == 2 && count % kSpread == 0 && word_kernels().add_2_spread != nullptr) {
    in_ = blocks_[i];
    const std::size_t half = room_.bytes().size() / 2;
    SpreadPlane planes[2];
    planes[0] = take_spread(planes_[0], room_.bytes().first(half), count);
    planes[1] = take_spread(planes_[1], room_.bytes().last(half), count);
    require_whole_block();
    return word_kernels().add_2_spread(planes, to.data(), count);
  }
  const Bytes planes = take_planes(i, count);
  detail::add_planes(width_, planes.data(), to.data(), count);
}

void WordReader::take_plane(const Plane& plane, MutableBytes out) {
  switch (plane.form) {
    case kZero:
      std::ranges::fill(out, std::byte{0});
      break;
    case kStored:
      if (in_.size() < out.size()) damaged_words("they end within a plane");
      std::copy_n(in_.begin(), out.size(), out.begin());
      in_ = in_.subspan(out.size());
      break;
    case kCoded:
      plane.bytes.take(in_, out);
      break;
    case kMasked:
      take_masked(plane, out);
  }
}

void WordReader::take_masked(const Plane& plane, MutableBytes out) {
  // Behind the planes: room for what is unpacked past them, the values and the masks, each with room behind it.
  const MutableBytes values = room_.bytes().last(2 * out.size() + 2 * kPastBytes);
  const MutableBytes masks = values.subspan(out.size() + kPastBytes).first(mask_size(out.size()));
  plane.bytes.take(in_, values.first(take_masks(plane, masks, out.size())));
  word_kernels().put_zeros_in(masks.data(), values.data(), out.data(), out.size());
}

std::size_t WordReader::take_masks(const Plane& plane, MutableBytes masks, std::size_t count) {
  plane.masks.take(in_, masks);
  std::fill_n(masks.data() + masks.size(), sizeof(std::uint64_t), std::byte{0});
  const std::size_t there = word_kernels().ones(masks);
  if (there > count) damaged_words("a mask is for more bytes than there are");
  return there;
}

SpreadPlane WordReader::take_spread(const Plane& plane, MutableBytes room, std::size_t count) {
  if (plane.form == kZero) return {};
  if (plane.form == kStored) {
    if (in_.size() < count) damaged_words("they end within a plane");
    const Bytes bytes = in_.first(count);
    in_ = in_.subspan(count);
    return {nullptr, bytes.data()};
  }
  if (plane.form == kCoded) {
    plane.bytes.take(in_, room.first(count));
    return {nullptr, room.data()};
  }
  const MutableBytes masks = room.subspan(count + kPastBytes).first(mask_size(count));
  plane.bytes.take(in_, room.first(take_masks(plane, masks, count)));
  return {masks.data(), room.data()};
}

}  // namespace

void unpack_words(Bytes packed, std::uint32_t width, MutableBytes words) {
  WordReader reader(packed, width, words.size());
  const std::uint64_t block = kWordBlock * width;
  for (std::uint64_t at = 0; at < words.size(); at += block) {
    reader.unpack(at / block, words.subspan(at, std::min<std::uint64_t>(block, words.size() - at)));
  }
}

void add_packed_words(Bytes packed, const PackedPart& part, MutableBytes to) {
  WordReader reader(packed, part.width, part.size);
  const std::uint64_t block = kWordBlock * part.width;
  std::uint64_t at = part.offset;
  while (!to.empty()) {
    const std::uint64_t begin = at / block * block;
    const std::uint64_t size = std::min(block, part.size - begin);
    const MutableBytes piece = to.first(std::min<std::uint64_t>(begin + size - at, to.size()));
    if (piece.size() == size) {
      reader.add(begin / block, piece);
    } else {
      const detail::Scratch words(size);
      reader.unpack(begin / block, words.bytes());
      add_words(words.bytes().subspan(at - begin, piece.size()), part.width, piece);
    }
    at += piece.size();
    to = to.subspan(piece.size());
  }
}

void add_words(Bytes differences, std::uint32_t width, MutableBytes to) {
  of_width(width, [&]<class Word>(Word) {
    for_words<Word>(differences, to, [](Word a, Word b) { return static_cast<Word>(a + number_of(b)); });
  });
}

void subtract_words(Bytes words, std::uint32_t width, MutableBytes from) {
  of_width(width, [&]<class Word>(Word) {
    for_words<Word>(words, from, [](Word a, Word b) { return difference_of(static_cast<Word>(a - b)); });
  });
}

}  // namespace ckpt
