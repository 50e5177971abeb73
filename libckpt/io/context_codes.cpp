#include "libckpt/io/context_codes.h"

#include <algorithm>
#include <bit>
#include <string>

#include "libcore/backend/cpu/isa.h"
#include "libcore/base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
// GCC 12 warns of registers that its header leaves undefined.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace ckpt::detail {
namespace {

#define CKPT_INLINE [[gnu::always_inline]] inline

constexpr std::size_t kTable = std::size_t{1} << kLongestCode;
constexpr std::size_t kLengthAt = 12;          ///< of a code in its entry
constexpr std::size_t kCodesBetweenLoads = 5;  ///< 55 bits, of 57 that are there at least
constexpr std::size_t kSideBySide = 8;         ///< streams whose bits fit the registers
constexpr std::size_t kMerged = 4;             ///< codes of one stream that are put into it together

CKPT_INLINE std::uint64_t bits_at(const std::byte* in) {
  return core::byte_swap(core::load_le<std::uint64_t>(in));
}

/// `used` of the first bits of a stream.
CKPT_INLINE void move_on(const std::byte*& in, std::uint64_t& used, const std::byte* end) {
  in = std::min(in + (used >> 3), end);
  used &= 7;
}

/// Eight streams, from the one on of which the first byte of `out` and the first place are.
CKPT_INLINE void take_eight(const std::uint16_t* table, const std::uint16_t* places, std::byte* out, std::size_t each,
                            const std::byte** in, std::uint64_t* used, const std::byte* end) {
  std::uint64_t bits[kSideBySide];
  for (std::size_t done = 0; done < each;) {
    // The lowest bit that is set says how many are used, by being shifted there from bit 0.
#pragma GCC unroll 8
    for (std::size_t q = 0; q < kSideBySide; ++q) bits[q] = (bits_at(in[q]) | 1) << used[q];
    const std::size_t stop = std::min(each, done + kCodesBetweenLoads);
    for (; done < stop; ++done) {
#pragma GCC unroll 8
      for (std::size_t q = 0; q < kSideBySide; ++q) {
        const std::size_t at = done * kContextStreams + q;
        const std::uint32_t entry = table[places[at] + (bits[q] >> (64 - kLongestCode))];
        out[at] = static_cast<std::byte>(entry >> 8);
        bits[q] <<= entry & 63;
      }
    }
#pragma GCC unroll 8
    for (std::size_t q = 0; q < kSideBySide; ++q) {
      used[q] = static_cast<std::uint64_t>(std::countr_zero(bits[q]));
      move_on(in[q], used[q], end);
    }
  }
}

CKPT_INLINE void take_codes(const std::uint16_t* table, const std::uint16_t* places, std::byte* out, std::size_t each,
                            ContextStreams& streams) {
  for (std::size_t q = 0; q < kContextStreams; q += kSideBySide) {
    take_eight(table, places + q, out + q, each, &streams.in[q], &streams.used[q], streams.end);
  }
}

/// A code and its length of each byte, as of ContextEncoder. Says whether bytes were replaced.
CKPT_INLINE bool look_up(const std::uint16_t* codes, std::byte* bytes, const std::uint16_t* places, std::size_t count,
                         std::uint8_t stand_in, std::uint16_t* __restrict out) {
  bool replaced = false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t* of = codes + (std::size_t{places[i]} >> kContextAt << 8);
    out[i] = of[static_cast<std::size_t>(bytes[i])];
    if (out[i] != 0) [[likely]]
      continue;
    bytes[i] = static_cast<std::byte>(stand_in);
    out[i] = of[stand_in];
    replaced = true;
  }
  return replaced;
}

/// Puts four codes of each stream into it, at once.
CKPT_INLINE void put_merged(const std::uint16_t* __restrict entries, OpenStreams& streams) {
  constexpr std::uint64_t kCode = (1U << kLengthAt) - 1;
  for (std::size_t q = 0; q < kContextStreams; ++q) {
    std::uint64_t codes = 0, filled = streams.filled[q];
    for (std::size_t i = 0; i < kMerged; ++i) {
      const std::uint16_t entry = entries[i * kContextStreams + q];
      codes = codes << (entry >> kLengthAt) | (entry & kCode);
      filled += entry >> kLengthAt;
    }
    const std::uint64_t bits = streams.bits[q] | codes << 1 << (63 - filled);  // there may be none, and nothing filled
    core::store_le(streams.at[q], core::byte_swap(bits));
    streams.at[q] += filled >> 3;
    streams.bits[q] = bits << (filled & ~std::uint64_t{7});
    streams.filled[q] = filled & 7;
  }
}

struct ContextKernels {
  void (*take)(const std::uint16_t* table, const std::uint16_t* places, std::byte* out, std::size_t each,
               ContextStreams& streams);
  bool (*look_up)(const std::uint16_t* codes, std::byte* bytes, const std::uint16_t* places, std::size_t count,
                  std::uint8_t stand_in, std::uint16_t* out);
  void (*put)(const std::uint16_t* entries, OpenStreams& streams);
};

// clang-format off
#define CKPT_CONTEXT_KERNELS(name, target)                                                                      \
  target void take_##name(const std::uint16_t* table, const std::uint16_t* places, std::byte* out,             \
                          std::size_t each, ContextStreams& streams) {                                         \
    take_codes(table, places, out, each, streams);                                                             \
  }                                                                                                            \
  target bool look_up_##name(const std::uint16_t* codes, std::byte* bytes, const std::uint16_t* places,        \
                             std::size_t count, std::uint8_t stand_in, std::uint16_t* out) {                   \
    return look_up(codes, bytes, places, count, stand_in, out);                                                \
  }                                                                                                            \
  target void put_##name(const std::uint16_t* entries, OpenStreams& streams) { put_merged(entries, streams); } \
  constexpr ContextKernels k_contexts_##name = {&take_##name, &look_up_##name, &put_##name};
// clang-format on

CKPT_CONTEXT_KERNELS(plain, )

#if defined(__x86_64__)
CKPT_CONTEXT_KERNELS(avx2, [[gnu::target("avx2")]])

#define CKPT_AVX512 gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")

#define CKPT_AVX512_INLINE [[CKPT_AVX512, gnu::always_inline]] inline

/// Turns the bytes of each of eight numbers around.
CKPT_AVX512_INLINE __m512i turn_of_bytes() {
  constexpr std::int64_t kFirst = 0x0001020304050607, kSecond = 0x08090a0b0c0d0e0f;
  return _mm512_set_epi64(kSecond, kFirst, kSecond, kFirst, kSecond, kFirst, kSecond, kFirst);
}

/// As take_eight() of every eight streams, one vector each: four of them hide how long a look-up takes.
[[CKPT_AVX512]] void take_avx512(const std::uint16_t* table, const std::uint16_t* places, std::byte* out,
                                 std::size_t each, ContextStreams& streams) {
  constexpr std::size_t kVectors = kContextStreams / 8;
  const __m512i turn = turn_of_bytes();
  const __m512i end = _mm512_set1_epi64(std::bit_cast<std::int64_t>(streams.end));
  __m512i in[kVectors], used[kVectors], bits[kVectors];
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kVectors; ++v) {
    in[v] = _mm512_loadu_si512(&streams.in[8 * v]);
    used[v] = _mm512_loadu_si512(&streams.used[8 * v]);
  }
  for (std::size_t done = 0; done < each;) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) {
      const __m512i next = _mm512_shuffle_epi8(_mm512_i64gather_epi64(in[v], nullptr, 1), turn);
      bits[v] = _mm512_sllv_epi64(next, used[v]);
    }
    const std::size_t stop = std::min(each, done + kCodesBetweenLoads);
    for (; done < stop; ++done) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kVectors; ++v) {
        const auto* at = reinterpret_cast<const __m128i*>(places + done * kContextStreams + 8 * v);
        const __m512i place = _mm512_cvtepu16_epi64(_mm_loadu_si128(at));
        const __m512i index = _mm512_add_epi64(place, _mm512_srli_epi64(bits[v], 64 - kLongestCode));
        const __m256i entry = _mm512_i64gather_epi32(index, table, 2);  // and what stands behind it
        const __m512i length = _mm512_cvtepu32_epi64(_mm256_and_si256(entry, _mm256_set1_epi32(15)));
        bits[v] = _mm512_sllv_epi64(bits[v], length);
        used[v] = _mm512_add_epi64(used[v], length);
        _mm256_mask_cvtepi32_storeu_epi8(out + done * kContextStreams + 8 * v, 0xff, _mm256_srli_epi32(entry, 8));
      }
    }
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kVectors; ++v) {
      in[v] = _mm512_min_epu64(_mm512_add_epi64(in[v], _mm512_srli_epi64(used[v], 3)), end);
      used[v] = _mm512_and_si512(used[v], _mm512_set1_epi64(7));
    }
  }
#pragma GCC unroll 8
  for (std::size_t v = 0; v < kVectors; ++v) {
    _mm512_storeu_si512(&streams.in[8 * v], in[v]);
    _mm512_storeu_si512(&streams.used[8 * v], used[v]);
  }
}

/// Sixteen at a time.
[[CKPT_AVX512]] bool look_up_avx512(const std::uint16_t* codes, std::byte* bytes, const std::uint16_t* places,
                                    std::size_t count, std::uint8_t stand_in, std::uint16_t* out) {
  constexpr int kToTable = kContextAt - 8;
  bool replaced = false;
  for (std::size_t i = 0; i + 16 <= count; i += 16) {
    const auto* at = reinterpret_cast<const __m256i*>(places + i);
    const __m512i context = _mm512_srli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(at)), kToTable);
    const __m512i byte = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i)));
    const __m512i entries = _mm512_i32gather_epi32(_mm512_or_si512(context, byte), codes, 2);
    const __m256i found = _mm512_cvtepi32_epi16(entries);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), found);
    if (_mm256_testn_epi16_mask(found, found) == 0) [[likely]]
      continue;
    replaced |= look_up(codes, bytes + i, places + i, 16, stand_in, out + i);
  }
  return replaced;
}

/// Entries of sixteen streams, of two codes each: one behind the other, and their length on top.
CKPT_AVX512_INLINE void merge_two(const std::uint16_t* entries, __m512i& codes, __m512i& lengths) {
  const __m512i code = _mm512_set1_epi32((1 << kLengthAt) - 1);
  const __m512i a = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(entries)));
  const __m512i b =
      _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(entries + kContextStreams)));
  const __m512i length = _mm512_srli_epi32(b, kLengthAt);
  codes = _mm512_or_si512(_mm512_sllv_epi32(_mm512_and_si512(a, code), length), _mm512_and_si512(b, code));
  lengths = _mm512_add_epi32(_mm512_srli_epi32(a, kLengthAt), length);
}

/// Eight of sixteen numbers, made longer.
CKPT_AVX512_INLINE __m512i half_of(__m512i numbers, std::size_t half) {
  return _mm512_cvtepu32_epi64(half == 0 ? _mm512_castsi512_si256(numbers) : _mm512_extracti64x4_epi64(numbers, 1));
}

/// Eight streams, from stream `q` on.
CKPT_AVX512_INLINE void put_eight(__m512i codes, __m512i lengths, OpenStreams& streams, std::size_t q,
                                  const __m512i& turn) {
  __m512i filled = _mm512_add_epi64(_mm512_loadu_si512(&streams.filled[q]), lengths);
  const __m512i free = _mm512_sub_epi64(_mm512_set1_epi64(64), filled);  // a shift by 64 leaves zeros
  const __m512i bits = _mm512_or_si512(_mm512_loadu_si512(&streams.bits[q]), _mm512_sllv_epi64(codes, free));
  const __m512i at = _mm512_loadu_si512(&streams.at[q]);
  _mm512_i64scatter_epi64(nullptr, at, _mm512_shuffle_epi8(bits, turn), 1);
  const __m512i written = _mm512_andnot_si512(_mm512_set1_epi64(7), filled);
  _mm512_storeu_si512(&streams.at[q], _mm512_add_epi64(at, _mm512_srli_epi64(filled, 3)));
  _mm512_storeu_si512(&streams.bits[q], _mm512_sllv_epi64(bits, written));
  _mm512_storeu_si512(&streams.filled[q], _mm512_sub_epi64(filled, written));
}

[[CKPT_AVX512]] void put_avx512(const std::uint16_t* entries, OpenStreams& streams) {
  static_assert(kMerged == 4);
  const __m512i turn = turn_of_bytes();
  for (std::size_t q = 0; q < kContextStreams; q += 16) {
    __m512i codes[2], lengths[2];
    merge_two(entries + q, codes[0], lengths[0]);
    merge_two(entries + 2 * kContextStreams + q, codes[1], lengths[1]);
    const __m512i length = _mm512_add_epi32(lengths[0], lengths[1]);
    for (std::size_t half = 0; half < 2; ++half) {
      const __m512i behind = half_of(lengths[1], half);
      const __m512i all = _mm512_or_si512(_mm512_sllv_epi64(half_of(codes[0], half), behind), half_of(codes[1], half));
      put_eight(all, half_of(length, half), streams, q + 8 * half, turn);
    }
  }
}

constexpr ContextKernels k_contexts_avx512 = {&take_avx512, &look_up_avx512, &put_avx512};
#endif

const ContextKernels& context_kernels() {
#if defined(__x86_64__)
  static const ContextKernels& best = *core::cpu::by_isa(&k_contexts_plain, &k_contexts_avx2, &k_contexts_avx512);
  return best;
#else
  return k_contexts_plain;
#endif
}

/// The most bytes of a stream, and eight more that may be written to.
constexpr std::size_t kStreamRoom = kMostInContexts / kContextStreams * kLongestCode / 8 + sizeof(std::uint64_t);
static_assert(kStreamRoom <= UINT16_MAX);

}  // namespace

ContextEncoder::ContextEncoder(const std::vector<CodeLengths>& contexts, std::uint8_t stand_in) : stand_in_(stand_in) {
  for (const CodeLengths& lengths : contexts) {
    const std::array<std::uint16_t, 256> codes = codes_of(lengths);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      codes_.push_back(static_cast<std::uint16_t>(codes[i] | lengths[i] << kLengthAt));
    }
  }
  codes_.push_back(0);  // two entries are loaded at once
}

ContextWriter::ContextWriter(const ContextEncoder& encoder) : encoder_(encoder), room_(kContextStreams * kStreamRoom) {
  begin();
}

void ContextWriter::begin() {
  for (std::size_t q = 0; q < kContextStreams; ++q) streams_.at[q] = room_.bytes().data() + q * kStreamRoom;
  streams_.bits = streams_.filled = {};
}

bool ContextWriter::put(MutableBytes bytes, const std::uint16_t* places) {
  constexpr std::size_t kStep = kMerged * kContextStreams;
  const ContextKernels& kernels = context_kernels();
  std::uint16_t entries[kStep];
  bool replaced = false;
  while (!bytes.empty()) {
    const std::size_t count = std::min(kStep, bytes.size());
    replaced |= kernels.look_up(encoder_.codes_.data(), bytes.data(), places, count, encoder_.stand_in_, entries);
    std::fill(entries + count, entries + kStep, std::uint16_t{0});
    kernels.put(entries, streams_);
    bytes = bytes.subspan(count);
    places += count;
  }
  return replaced;
}

void ContextWriter::finish(ByteVector& out) {
  const std::size_t head = out.size();
  out.resize(head + kContextHead);
  for (std::size_t q = 0; q < kContextStreams; ++q) {
    const std::byte* begin = room_.bytes().data() + q * kStreamRoom;
    const auto size = static_cast<std::size_t>(streams_.at[q] - begin) + (streams_.filled[q] > 0 ? 1 : 0);
    core::store_le(out.data() + head + 2 * q, static_cast<std::uint16_t>(size));
    core::append(out, Bytes(begin, size));
  }
  begin();
}

ContextDecoder::ContextDecoder(const std::vector<CodeLengths>& contexts) {
  constexpr std::uint16_t kNoCode = kLongestCode;
  table_.resize(contexts.size() * kTable + 1, kNoCode);
  std::uint16_t* table = table_.data();
  for (const CodeLengths& lengths : contexts) {
    check_lengths(lengths);
    const std::array<std::uint16_t, 256> codes = codes_of(lengths);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (lengths[i] == 0) continue;
      const std::size_t part = kTable >> lengths[i];
      std::fill_n(table + codes[i] * part, part, static_cast<std::uint16_t>(i << 8 | lengths[i]));
    }
    table += kTable;
  }
}

ContextStreams ContextDecoder::open(Bytes& in) {
  if (in.size() < kContextHead) damaged_words("they end within the sizes of their streams");
  ContextStreams streams = {};
  streams.end = in.data() + in.size();
  std::size_t at = kContextHead;
  for (std::size_t q = 0; q < kContextStreams; ++q) {
    streams.in[q] = in.data() + std::min(at, in.size());
    at += core::load_le<std::uint16_t>(in.data() + 2 * q);
  }
  if (at > in.size()) damaged_words("they end within a stream of codes");
  in = in.subspan(at);
  return streams;
}

void ContextDecoder::take(ContextStreams& streams, const std::uint16_t* places, MutableBytes out) const {
  context_kernels().take(table_.data(), places, out.data(), out.size() / kContextStreams, streams);
}

}  // namespace ckpt::detail
