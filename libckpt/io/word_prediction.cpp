// Compiled so that no product and sum become one operation, and loops become vectors (CMakeLists.txt).

#include "libckpt/io/word_prediction.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>

#include "libckpt/io/context_codes.h"
#include "libcore/backend/cpu/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ckpt::detail {
namespace {

#define CKPT_INLINE [[gnu::always_inline]] inline

constexpr std::uint32_t kLeastMoved = 8;   ///< exponents whose floats move: the others could become subnormal,
constexpr std::uint32_t kSpanMoved = 246;  ///< or are no numbers

CKPT_INLINE std::uint16_t word_at(const std::byte* bytes, std::size_t i) {
  return core::load_le<std::uint16_t>(bytes + 2 * i);
}

CKPT_INLINE float scale_of(const Prediction& how) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(127 - how.shift) << 23);
}

CKPT_INLINE void move_all(const Moves& by, std::int16_t* __restrict moves, std::size_t count) {
  std::fill_n(moves, count, std::int16_t{0});
  for (unsigned k = 0; k < by.rank; ++k) {
    const std::int16_t factor = by.row[k];
    const std::int16_t* columns = by.columns + k * by.stride;
    for (std::size_t i = 0; i < count; ++i) moves[i] = static_cast<std::int16_t>(moves[i] + factor * columns[i]);
  }
}

template <bool kMoves>
CKPT_INLINE void predict_all(const std::byte* base, const std::int16_t* __restrict moves, std::size_t count,
                             const Prediction& how, std::uint16_t* __restrict words, std::uint16_t* __restrict turned,
                             std::uint16_t* __restrict places) {
  const float scale = scale_of(how);
  const int top = how.top, last = how.contexts - 1;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = word_at(base, i);
    std::uint32_t sum = word << 16;
    if constexpr (kMoves) {
      const float moved = std::bit_cast<float>(sum) + static_cast<float>(moves[i]) * scale;
      // No branch, so that the loop becomes vectors.
      const std::uint32_t moves_it = 0U - static_cast<std::uint32_t>((word >> 7 & 0xff) - kLeastMoved <= kSpanMoved);
      sum = (std::bit_cast<std::uint32_t>(moved) & moves_it) | (sum & ~moves_it);
    }
    const std::uint32_t up = sum >> 15 & 1;
    words[i] = static_cast<std::uint16_t>((sum >> 16) + up);
    turned[i] = static_cast<std::uint16_t>(0 - up);
    int context = top - static_cast<int>(sum >> 23 & 0xff);
    context = context < 0 ? 0 : context;
    context = context > last ? last : context;
    places[i] = static_cast<std::uint16_t>(context << kContextAt);
  }
}

CKPT_INLINE void predict_any(const std::byte* base, const Moves& by, std::size_t count, const Prediction& how,
                             const Predicted& out) {
  if (by.rank == 0) return predict_all<false>(base, nullptr, count, how, out.words, out.turned, out.places);
  std::array<std::int16_t, kAtOnce> moves;
  move_all(by, moves.data(), count);
  predict_all<true>(base, moves.data(), count, how, out.words, out.turned, out.places);
}

CKPT_INLINE void misses_all(const std::byte* words, const std::uint16_t* predicted, const std::uint16_t* turned,
                            std::size_t count, std::uint16_t* __restrict out, std::uint8_t* __restrict limited,
                            std::uint16_t most) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto off = static_cast<std::uint16_t>(word_at(words, i) - predicted[i]);
    const auto by = static_cast<std::uint16_t>((off ^ turned[i]) - turned[i]);
    const auto miss = static_cast<std::uint16_t>(by << 1 ^ (0 - (by >> 15)));
    out[i] = miss;
    limited[i] = static_cast<std::uint8_t>(miss < most ? miss : most);
  }
}

CKPT_INLINE std::uint16_t restored(std::uint16_t predicted, std::uint16_t turned, std::uint16_t miss) {
  const auto by = static_cast<std::uint16_t>(miss >> 1 ^ (0 - (miss & 1)));
  return static_cast<std::uint16_t>(predicted + (by ^ turned) - turned);
}

CKPT_INLINE void restore_all(const std::byte* __restrict misses, const std::uint16_t* __restrict predicted,
                             const std::uint16_t* __restrict turned, std::size_t count, std::byte* __restrict words) {
  for (std::size_t i = 0; i < count; ++i) {
    core::store_le(words + 2 * i, restored(predicted[i], turned[i], static_cast<std::uint16_t>(misses[i])));
  }
}

/// Few are large: bytes are looked at eight at a time.
CKPT_INLINE std::size_t find_large_all(const std::byte* bytes, std::size_t count, std::uint8_t least,
                                       std::uint16_t* where) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < count; i += 8) {
    const std::size_t end = std::min(count, i + 8);
    bool any = false;
    for (std::size_t k = i; k < end; ++k) any |= static_cast<std::uint8_t>(bytes[k]) >= least;
    for (std::size_t k = i; any && k < end; ++k) {
      where[found] = static_cast<std::uint16_t>(k);
      found += static_cast<std::uint8_t>(bytes[k]) >= least ? 1 : 0;
    }
  }
  return found;
}

// clang-format off
#define CKPT_PREDICT(name, target)                                                                                 \
  target void predict_##name(const std::byte* base, const Moves& moves, std::size_t count, const Prediction& how,  \
                             const Predicted& out) {                                                               \
    predict_any(base, moves, count, how, out);                                                                     \
  }
#define CKPT_FIND_LARGE(name, target)                                                                              \
  target std::size_t find_large_##name(const std::byte* bytes, std::size_t count, std::uint8_t least,              \
                                       std::uint16_t* where) {                                                     \
    return find_large_all(bytes, count, least, where);                                                             \
  }
#define CKPT_KERNELS(name, target)                                                                                 \
  target void misses_##name(const std::byte* words, const Predicted& predicted, std::size_t count,                 \
                            std::uint16_t* out, std::uint8_t* limited, std::uint8_t most) {                        \
    misses_all(words, predicted.words, predicted.turned, count, out, limited, most);                               \
  }                                                                                                                \
  target void restore_##name(const std::byte* misses, const Predicted& predicted, std::size_t count,               \
                             std::byte* words) {                                                                   \
    restore_all(misses, predicted.words, predicted.turned, count, words);                                          \
  }                                                                                                                \
  constexpr PredictionKernels k_##name = {&predict_##name, &misses_##name, &restore_##name, &find_large_##name};
// clang-format on

CKPT_PREDICT(plain, )
CKPT_FIND_LARGE(plain, )
CKPT_KERNELS(plain, )

#if defined(__x86_64__)
CKPT_PREDICT(avx2, [[gnu::target("avx2")]])
CKPT_FIND_LARGE(avx2, [[gnu::target("avx2")]])
CKPT_KERNELS(avx2, [[gnu::target("avx2")]])

#define CKPT_AVX512 gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512,popcnt")
#define CKPT_AVX512_INLINE [[CKPT_AVX512, gnu::always_inline]] inline

/// 32 words at once, or as many as there are. Every other one of them, and then the others, is a float whose lower half
/// is zeros; what it moves by is a number of which the same is true, so that the scale is 2^-16 of that of Prediction.
/// Its product with a power of two is exact: a multiplication and addition in one step gives the bits of both.
template <bool kAll>
struct Words32 {
  __mmask32 there;
  CKPT_AVX512_INLINE __m512i load(const void* from) const {
    return kAll ? _mm512_loadu_si512(from) : _mm512_maskz_loadu_epi16(there, from);
  }
  CKPT_AVX512_INLINE void store(std::uint16_t* to, __m512i words) const {
    kAll ? _mm512_storeu_si512(to, words) : _mm512_mask_storeu_epi16(to, there, words);
  }
};

CKPT_AVX512_INLINE __m512i lower(__m512i words) {
  return _mm512_slli_epi32(words, 16);
}
CKPT_AVX512_INLINE __m512i upper(__m512i words) {
  return _mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xffff0000U)));
}
CKPT_AVX512_INLINE __m512i moved(__m512i words, __m512i by, __m512 scale) {
  const __m512 sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(by), scale, _mm512_castsi512_ps(words));
  return _mm512_castps_si512(sum);
}
/// The upper halves of lower and upper numbers, back in their places.
CKPT_AVX512_INLINE __m512i joined(__m512i low, __m512i high) {
  return _mm512_mask_mov_epi16(_mm512_srli_epi32(low, 16), 0xaaaaaaaa, high);
}

/// `rounded` and `cut` to 16 bits; they differ where the sign of a miss is turned.
template <class Words>
CKPT_AVX512_INLINE void put_predicted(const Words& words, __m512i rounded, __m512i cut, std::size_t at,
                                      const Prediction& how, const Predicted& out) {
  const __m512i exponent = _mm512_and_si512(cut, _mm512_set1_epi16(0x7f80));
  __m512i context = _mm512_sub_epi16(_mm512_set1_epi16(static_cast<short>(how.top << 7)), exponent);
  context = _mm512_max_epi16(context, _mm512_setzero_si512());
  context = _mm512_min_epi16(context, _mm512_set1_epi16(static_cast<short>((how.contexts - 1) << 7)));
  words.store(out.words + at, rounded);
  words.store(out.turned + at, _mm512_sub_epi16(cut, rounded));
  words.store(out.places + at, _mm512_slli_epi16(context, kContextAt - 7));
}

/// `factors`: null where no word moves.
template <unsigned kRank, class Words>
CKPT_AVX512_INLINE void predict_32(const Words& words, const std::byte* base, const Moves& by, const __m512i* factors,
                                   std::size_t at, const Prediction& how, const Predicted& out) {
  const __m512i half = _mm512_set1_epi32(0x8000), exponents = _mm512_set1_epi16(0x7f80);
  const __m512 scale = _mm512_set1_ps(scale_of(how) * 0x1p-16F);
  const __m512i word = words.load(base + 2 * at);
  if (factors == nullptr) return put_predicted(words, word, word, at, how, out);
  __m512i sum = _mm512_setzero_si512();
#pragma GCC unroll 16
  for (unsigned k = 0; k < (kRank == 0 ? by.rank : kRank); ++k) {
    sum = _mm512_add_epi16(sum, _mm512_mullo_epi16(factors[k], words.load(by.columns + k * by.stride + at)));
  }
  const __m512i low = moved(lower(word), lower(sum), scale), high = moved(upper(word), upper(sum), scale);
  const __m512i above = _mm512_sub_epi16(_mm512_and_si512(word, exponents), _mm512_set1_epi16(kLeastMoved << 7));
  const __mmask32 moves = _mm512_cmple_epu16_mask(above, _mm512_set1_epi16(kSpanMoved << 7));
  const __m512i rounded =
      _mm512_mask_mov_epi16(word, moves, joined(_mm512_add_epi32(low, half), _mm512_add_epi32(high, half)));
  const __m512i cut = _mm512_mask_mov_epi16(word, moves, joined(low, high));
  put_predicted(words, rounded, cut, at, how, out);
}

/// `kRank`: how many factors there are, or 0 for any number of them.
template <unsigned kRank>
CKPT_AVX512_INLINE void predict_moved(const std::byte* base, const Moves& by, std::size_t count, const Prediction& how,
                                      const Predicted& out) {
  __m512i by_row[kRank == 0 ? kMostRank : kRank];
#pragma GCC unroll 16
  for (unsigned k = 0; k < (kRank == 0 ? by.rank : kRank); ++k) by_row[k] = _mm512_set1_epi16(by.row[k]);
  const __m512i* factors = by.rank == 0 ? nullptr : by_row;
  std::size_t i = 0;
  for (; i + 32 <= count; i += 32) predict_32<kRank>(Words32<true>{}, base, by, factors, i, how, out);
  const __mmask32 left = (1U << (count - i)) - 1;
  if (left != 0) predict_32<kRank>(Words32<false>{left}, base, by, factors, i, how, out);
}

[[CKPT_AVX512]] void predict_avx512(const std::byte* base, const Moves& by, std::size_t count, const Prediction& how,
                                    const Predicted& out) {
  constexpr unsigned kUsual = 8;  // as low_rank.cpp finds them
  if (by.rank == kUsual) return predict_moved<kUsual>(base, by, count, how, out);
  predict_moved<0>(base, by, count, how, out);
}

[[CKPT_AVX512]] std::size_t find_large_avx512(const std::byte* bytes, std::size_t count, std::uint8_t least,
                                              std::uint16_t* where) {
  const __m512i sixteen = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  std::uint16_t* to = where;
  for (std::size_t i = 0; i < count; i += 64) {
    const __mmask64 there = count - i >= 64 ? UINT64_MAX : (std::uint64_t{1} << (count - i)) - 1;
    const __m512i some = _mm512_maskz_loadu_epi8(there, bytes + i);
    const std::uint64_t large = _mm512_mask_cmpge_epu8_mask(there, some, _mm512_set1_epi8(static_cast<char>(least)));
    if (large == 0) continue;
    for (unsigned k = 0; k < 64; k += 16) {
      const auto mask = static_cast<__mmask16>(large >> k);
      const __m512i places = _mm512_add_epi32(sixteen, _mm512_set1_epi32(static_cast<int>(i + k)));
      const __m256i found = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(mask, places));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), found);
      to += std::popcount(mask);
    }
  }
  return static_cast<std::size_t>(to - where);
}

CKPT_KERNELS(avx512, [[CKPT_AVX512]])
#endif

}  // namespace

const PredictionKernels& prediction_kernels() {
#if defined(__x86_64__)
  static const PredictionKernels& best = *core::cpu::by_isa(&k_plain, &k_avx2, &k_avx512);
  return best;
#else
  return k_plain;
#endif
}

std::uint16_t restored_word(std::uint16_t predicted, std::uint16_t turned, std::uint16_t miss) {
  return restored(predicted, turned, miss);
}

NearestRounding::NearestRounding() : before_(std::fegetround()) {
  if (before_ != FE_TONEAREST) std::fesetround(FE_TONEAREST);
}

NearestRounding::~NearestRounding() {
  if (before_ != FE_TONEAREST) std::fesetround(before_);
}

}  // namespace ckpt::detail
