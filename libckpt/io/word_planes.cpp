#include "libckpt/io/word_planes.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "libckpt/io/byte_codes.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/codec.h"
#include "libckpt/io/scratch.h"
#include "libcore/backend/cpu/isa.h"
#include "libcore/base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ckpt {

namespace {

using detail::ByteCounts;
using detail::ByteDecoder;
using detail::ByteEncoder;
using detail::CodeLengths;
using detail::kPastBytes;

enum PlaneForm : std::uint8_t { kZero = 0, kStored = 1, kCoded = 2, kMasked = 3 };

constexpr std::size_t kChecksum = 8;
constexpr std::size_t kWordHead = kChecksum + 4;  ///< and how many bytes the words are
constexpr std::size_t kWordBlock = 16384;         ///< words; their planes stay near the processor
constexpr std::size_t kWordBlockHead = 4;         ///< bytes that state the size of one
constexpr std::size_t kMask = 8;                  ///< bytes that one byte of a mask is for
static_assert(kWordBlock <= detail::kMostCoded);

[[noreturn]] void damaged_words(const std::string& what) {
  throw core::Error(core::ErrorCode::corrupt, "packed words are damaged: " + what);
}

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

/// A mask costs time, so it must save a fifth.
constexpr double kMaskWorthwhile = 0.8;
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
  const auto mask_pays = static_cast<double>(masked_bits) < kMaskWorthwhile * static_cast<double>(coded_bits);
  const PlanePacking& best = mask_pays ? masked : coded;
  return std::min(masked_bits, coded_bits) < stored - stored / 32 ? best : PlanePacking{kStored, {}, {}};
}

/// A difference as a number modulo 2^bits, and back. Its lowest bit is the sign, so that small ones of either sign have
/// few bits.
template <class Word>
Word number_of(Word difference) {
  return static_cast<Word>(difference >> 1 ^ static_cast<Word>(Word{0} - static_cast<Word>(difference & 1)));
}
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

template <class Body>
void of_width(std::uint32_t width, const Body& body) {
  if (width == 1) body(std::uint8_t{});
  if (width == 2) body(std::uint16_t{});
  if (width == 4) body(std::uint32_t{});
  if (width == 8) body(std::uint64_t{});
}

/// What is done to many bytes, by the instructions of this processor.
struct Kernels {
  std::size_t (*ones)(Bytes masks);
  /// Puts zeros back. `masks` is followed by eight zeros, kPastBytes behind `values` are there, and as many behind
  /// `out` may be written to.
  void (*put_zeros_in)(const std::byte* masks, const std::byte* values, std::byte* out, std::size_t count);
  /// Adds the differences in planes of `count` bytes to words of two bytes, and of four.
  void (*add_2)(const std::byte* planes, std::byte* to, std::size_t count);
  void (*add_4)(const std::byte* planes, std::byte* to, std::size_t count);
};

std::size_t ones_plain(Bytes masks) {
  std::size_t sum = 0;
  for (std::byte mask : masks) sum += std::popcount(static_cast<unsigned>(mask));
  return sum;
}

void put_zeros_in_plain(const std::byte* masks, const std::byte* values, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool there = (masks[i / kMask] >> i % kMask & std::byte{1}) != std::byte{0};
    out[i] = there ? *values++ : std::byte{0};
  }
}

/// From word `first` on.
template <class Word>
void add_from(std::size_t first, const std::byte* planes, std::byte* to, std::size_t count) {
  for (std::size_t i = first; i < count; ++i) {
    Word word = 0;
    for (std::size_t p = 0; p < sizeof(Word); ++p) word |= static_cast<Word>(Word(planes[p * count + i]) << 8 * p);
    std::byte* at = to + i * sizeof(Word);
    core::store_le(at, static_cast<Word>(core::load_le<Word>(at) + number_of(word)));
  }
}

template <class Word>
void add_plain(const std::byte* planes, std::byte* to, std::size_t count) {
  add_from<Word>(0, planes, to, count);
}

#if defined(__x86_64__)
#define CKPT_AVX2 [[gnu::target("avx2"), gnu::always_inline]] inline

CKPT_AVX2 __m256i load_32(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
CKPT_AVX2 void store_32(std::byte* to, __m256i value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value);
}
CKPT_AVX2 __m128i load_8(const void* from) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(from));
}

/// Of every mask, which value goes into which byte; 0x80 makes a zero.
consteval std::array<std::uint64_t, 256> make_places() {
  std::array<std::uint64_t, 256> places = {};
  for (unsigned mask = 0; mask < 256; ++mask) {
    std::uint64_t next = 0;
    for (unsigned i = 0; i < kMask; ++i) places[mask] |= ((mask >> i & 1) != 0 ? next++ : 0x80) << 8 * i;
  }
  return places;
}
constexpr std::array<std::uint64_t, 256> kZeroPlaces = make_places();

[[gnu::target("popcnt")]] std::size_t ones_avx2(Bytes masks) {
  std::size_t sum = 0;
  for (; masks.size() >= 8; masks = masks.subspan(8)) {
    sum += static_cast<std::size_t>(__builtin_popcountll(core::load_le<std::uint64_t>(masks.data())));
  }
  return sum + ones_plain(masks);
}

[[gnu::target("avx2,popcnt")]] void put_zeros_in_avx2(const std::byte* masks, const std::byte* values, std::byte* out,
                                                      std::size_t count) {
  constexpr std::size_t kStep = 8 * kMask;
  static_assert(kStep <= kPastBytes);
  for (std::size_t i = 0; i < count; i += kStep) {
    const auto all = core::load_le<std::uint64_t>(masks + i / kMask);
    if (all == 0) {
      store_32(out + i, _mm256_setzero_si256());
      store_32(out + i + 32, _mm256_setzero_si256());
      continue;
    }
    for (std::size_t k = 0; k < 8; ++k) {
      const auto mask = static_cast<std::uint8_t>(all >> 8 * k);
      const __m128i spread = _mm_shuffle_epi8(load_8(values), load_8(&kZeroPlaces[mask]));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i + k * kMask), spread);
      values += __builtin_popcount(mask);
    }
  }
}

CKPT_AVX2 void add_16(std::byte* to, __m256i words) {
  const __m256i signs = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_and_si256(words, _mm256_set1_epi16(1)));
  store_32(to, _mm256_add_epi16(load_32(to), _mm256_xor_si256(_mm256_srli_epi16(words, 1), signs)));
}

[[gnu::target("avx2")]] void add_2_avx2(const std::byte* planes, std::byte* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) {
    const __m256i low = load_32(planes + i);
    const __m256i high = load_32(planes + count + i);
    const __m256i a = _mm256_unpacklo_epi8(low, high);
    const __m256i b = _mm256_unpackhi_epi8(low, high);
    add_16(to + 2 * i, _mm256_permute2x128_si256(a, b, 0x20));
    add_16(to + 2 * i + 32, _mm256_permute2x128_si256(a, b, 0x31));
  }
  add_from<std::uint16_t>(i, planes, to, count);
}

[[gnu::target("avx2")]] void add_4_avx2(const std::byte* planes, std::byte* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256i words = _mm256_cvtepu8_epi32(load_8(planes + i));
    words = _mm256_or_si256(words, _mm256_slli_epi32(_mm256_cvtepu8_epi32(load_8(planes + count + i)), 8));
    words = _mm256_or_si256(words, _mm256_slli_epi32(_mm256_cvtepu8_epi32(load_8(planes + 2 * count + i)), 16));
    words = _mm256_or_si256(words, _mm256_slli_epi32(_mm256_cvtepu8_epi32(load_8(planes + 3 * count + i)), 24));
    const __m256i signs = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_and_si256(words, _mm256_set1_epi32(1)));
    words = _mm256_xor_si256(_mm256_srli_epi32(words, 1), signs);
    store_32(to + 4 * i, _mm256_add_epi32(load_32(to + 4 * i), words));
  }
  add_from<std::uint32_t>(i, planes, to, count);
}

#define CKPT_AVX512 gnu::target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi2,popcnt")

/// 64 zeros and values at once: one instruction spreads them by their masks.
[[CKPT_AVX512]] void put_zeros_in_avx512(const std::byte* masks, const std::byte* values, std::byte* out,
                                         std::size_t count) {
  constexpr std::size_t kStep = 8 * kMask;
  static_assert(kStep <= kPastBytes);
  for (std::size_t i = 0; i < count; i += kStep) {
    const auto all = core::load_le<std::uint64_t>(masks + i / kMask);
    _mm512_storeu_si512(out + i, _mm512_maskz_expand_epi8(all, _mm512_loadu_si512(values)));
    values += __builtin_popcountll(all);
  }
}

[[CKPT_AVX512, gnu::always_inline]] inline void add_32(std::byte* to, __m512i words) {
  const __m512i signs = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(words, _mm512_set1_epi16(1)));
  const __m512i numbers = _mm512_xor_si512(_mm512_srli_epi16(words, 1), signs);
  _mm512_storeu_si512(to, _mm512_add_epi16(_mm512_loadu_si512(to), numbers));
}

[[CKPT_AVX512]] void add_2_avx512(const std::byte* planes, std::byte* to, std::size_t count) {
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    const __m512i low = _mm512_loadu_si512(planes + i);
    const __m512i high = _mm512_loadu_si512(planes + count + i);
    const __m512i a = _mm512_unpacklo_epi8(low, high);
    const __m512i b = _mm512_unpackhi_epi8(low, high);
    add_32(to + 2 * i, _mm512_permutex2var_epi64(a, first, b));
    add_32(to + 2 * i + 64, _mm512_permutex2var_epi64(a, second, b));
  }
  add_from<std::uint16_t>(i, planes, to, count);
}
#endif

const Kernels& kernels() {
  static constexpr Kernels kPlain = {&ones_plain, &put_zeros_in_plain, &add_plain<std::uint16_t>,
                                     &add_plain<std::uint32_t>};
#if defined(__x86_64__)
  static constexpr Kernels kAvx2 = {&ones_avx2, &put_zeros_in_avx2, &add_2_avx2, &add_4_avx2};
  static constexpr Kernels kAvx512 = {&ones_avx2, &put_zeros_in_avx512, &add_2_avx512, &add_4_avx2};
  static const Kernels& best = *core::cpu::by_isa(&kPlain, &kAvx2, core::cpu::spreads_bytes() ? &kAvx512 : &kAvx2);
  return best;
#else
  return kPlain;
#endif
}

std::size_t room_of(std::uint32_t width, std::uint64_t size) {
  const std::size_t block = std::min<std::uint64_t>(kWordBlock, size / width);
  return width * block + 2 * block + 3 * kPastBytes;
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
  if (!in_.empty()) damaged_words(std::to_string(in_.size()) + " bytes of a block are left over");
  return planes;
}

void WordReader::unpack(std::size_t i, MutableBytes out) {
  unshuffle(take_planes(i, out.size() / width_), width_, out);
}

void WordReader::add(std::size_t i, MutableBytes to) {
  const std::size_t count = to.size() / width_;
  const Bytes planes = take_planes(i, count);
  if (width_ == 2) return kernels().add_2(planes.data(), to.data(), count);
  if (width_ == 4) return kernels().add_4(planes.data(), to.data(), count);
  of_width(width_, [&]<class Word>(Word) { add_plain<Word>(planes.data(), to.data(), count); });
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
  plane.masks.take(in_, masks);
  std::fill_n(masks.data() + masks.size(), sizeof(std::uint64_t), std::byte{0});
  const std::size_t there = kernels().ones(masks);
  if (there > out.size()) damaged_words("a mask is for more bytes than there are");
  plane.bytes.take(in_, values.first(there));
  kernels().put_zeros_in(masks.data(), values.data(), out.data(), out.size());
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
