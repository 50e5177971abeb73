#include "libckpt/io/float_groups.h"

#include "libcore/backend/cpu/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ckpt::detail {
namespace {

constexpr std::uint8_t kLastCode = 7;

/// Bit i of word k is bit k of value i.
void put_words(const std::uint8_t (&values)[kGroup], std::byte* words) {
  for (unsigned k = 0; k < 3; ++k) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < kGroup; ++i) word |= static_cast<std::uint32_t>(values[i] >> k & 1) << i;
    core::store_le(words + 4 * k, word);
  }
}

/// Value i of the three words.
unsigned value_of(const std::byte* words, std::size_t i) {
  unsigned value = 0;
  for (unsigned k = 0; k < 3; ++k) value |= (core::load_le<std::uint32_t>(words + 4 * k) >> i & 1) << k;
  return value;
}

template <class Layout>
void pack_plain(const GroupParts& parts, std::size_t groups, std::uint8_t base, std::uint32_t* escapes) {
  constexpr unsigned kBelow = Layout::kBelow;
  for (std::size_t g = 0; g < groups; ++g) {
    std::uint8_t codes[kGroup];
    std::uint8_t below[kGroup];
    std::uint32_t mask = 0;
    for (std::size_t i = 0; i < kGroup; ++i) {
      std::size_t at = g * kGroup + i;
      auto turned = Layout::turned(parts.floats, at);
      auto top = static_cast<std::uint8_t>(turned >> (Layout::kBits - 8));
      codes[i] = static_cast<std::uint8_t>((top >> kBelow) - base);
      below[i] = top;
      mask |= static_cast<std::uint32_t>(codes[i] > kLastCode) << i;
      if constexpr (Layout::kMiddle > 0) {
        core::store_le(parts.low + 2 * at, static_cast<std::uint16_t>(turned));
        parts.middle[at] = static_cast<std::byte>(turned >> 16 & 0xff);
      } else {
        parts.low[at] = static_cast<std::byte>(turned & 0xff);
      }
    }
    std::byte* words = parts.words + g * Layout::kGroupBytes;
    put_words(codes, words);
    if constexpr (kBelow > 0) put_words(below, words + 12);
    escapes[g] = mask;
  }
}

template <class Layout>
void unpack_plain(const ConstGroupParts& parts, std::size_t groups, std::uint8_t base, std::byte* floats) {
  using Raw = typename Layout::Raw;
  for (std::size_t at = 0; at < groups * kGroup; ++at) {
    const std::byte* words = parts.words + at / kGroup * Layout::kGroupBytes;
    unsigned top = (base + value_of(words, at % kGroup)) << Layout::kBelow & 0xff;
    if constexpr (Layout::kBelow > 0) top |= value_of(words + 12, at % kGroup);
    Raw turned = static_cast<Raw>(static_cast<Raw>(top) << (Layout::kBits - 8));
    if constexpr (Layout::kMiddle > 0) {
      turned |= static_cast<Raw>(parts.middle[at]) << 16 | core::load_le<std::uint16_t>(parts.low + 2 * at);
    } else {
      turned = static_cast<Raw>(turned | static_cast<Raw>(parts.low[at]));
    }
    Layout::put_turned(floats, at, turned);
  }
}

#if defined(__x86_64__)
#define CKPT_AVX2 [[gnu::target("avx2"), gnu::always_inline]] inline

CKPT_AVX2 __m256i load(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
CKPT_AVX2 __m128i load_half(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
CKPT_AVX2 __m128i load_quarter(const std::byte* from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}
CKPT_AVX2 void store(std::byte* to, __m256i value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value);
}

/// Quarters 0, 2, 1, 3: what packing two vectors within their halves leaves, in order; and the other way round.
CKPT_AVX2 __m256i swap_quarters(__m256i value) {
  return _mm256_permute4x64_epi64(value, 0xd8);
}

/// Bits 0 to 2 of 32 bytes as three words.
CKPT_AVX2 void put_words_avx2(__m256i bytes, std::byte* words) {
  core::store_le(words, _mm256_movemask_epi8(_mm256_slli_epi16(bytes, 7)));
  core::store_le(words + 4, _mm256_movemask_epi8(_mm256_slli_epi16(bytes, 6)));
  core::store_le(words + 8, _mm256_movemask_epi8(_mm256_slli_epi16(bytes, 5)));
}

/// A word as 32 bytes, 0 or -1 each; those of its bytes 0, 2, 1 and 3.
CKPT_AVX2 __m256i spread(const std::byte* word) {
  const __m256i pick = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2,  //
                                        1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bits = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
  __m256i all = _mm256_shuffle_epi8(_mm256_set1_epi32(core::load_le<int>(word)), pick);
  return _mm256_cmpeq_epi8(_mm256_and_si256(all, bits), bits);
}

/// The values of three words, negated.
CKPT_AVX2 __m256i negated_values(const std::byte* words) {
  __m256i sum = spread(words + 8);
  sum = _mm256_add_epi8(_mm256_add_epi8(sum, sum), spread(words + 4));
  return _mm256_add_epi8(_mm256_add_epi8(sum, sum), spread(words));
}

/// Of 32 exponents: codes into words; bits where an exponent has none.
CKPT_AVX2 std::uint32_t put_codes(__m256i exponents, __m256i base, std::byte* words) {
  __m256i codes = _mm256_sub_epi8(exponents, base);
  put_words_avx2(codes, words);
  __m256i fits = _mm256_cmpeq_epi8(_mm256_min_epu8(codes, _mm256_set1_epi8(kLastCode)), codes);
  return ~static_cast<std::uint32_t>(_mm256_movemask_epi8(fits));
}

CKPT_AVX2 __m256i turned_16(const std::byte* from) {
  __m256i raw = load(from);
  return _mm256_or_si256(_mm256_slli_epi16(raw, 1), _mm256_srli_epi16(raw, 15));
}
CKPT_AVX2 void put_turned_16(std::byte* to, __m256i turned) {
  store(to, _mm256_or_si256(_mm256_srli_epi16(turned, 1), _mm256_slli_epi16(turned, 15)));
}
CKPT_AVX2 __m256i low_bytes(__m256i a, __m256i b) {
  const __m256i mask = _mm256_set1_epi16(0xff);
  return swap_quarters(_mm256_packus_epi16(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)));
}
CKPT_AVX2 __m256i high_bytes(__m256i a, __m256i b) {
  return swap_quarters(_mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8)));
}

template <class Layout>
[[gnu::target("avx2")]] void pack_16(const GroupParts& parts, std::size_t groups, std::uint8_t base,
                                     std::uint32_t* escapes) {
  const __m256i bases = _mm256_set1_epi8(static_cast<char>(base));
  for (std::size_t g = 0; g < groups; ++g) {
    const std::byte* from = parts.floats + g * kGroup * 2;
    __m256i a = turned_16(from);
    __m256i b = turned_16(from + 32);
    store(parts.low + g * kGroup, low_bytes(a, b));
    __m256i top = high_bytes(a, b);
    std::byte* words = parts.words + g * Layout::kGroupBytes;
    if constexpr (Layout::kBelow > 0) {
      put_words_avx2(top, words + 12);
      top = _mm256_and_si256(_mm256_srli_epi16(top, Layout::kBelow), _mm256_set1_epi8(0xff >> Layout::kBelow));
    }
    escapes[g] = put_codes(top, bases, words);
  }
}

template <class Layout>
[[gnu::target("avx2")]] void unpack_16(const ConstGroupParts& parts, std::size_t groups, std::uint8_t base,
                                       std::byte* floats) {
  const __m256i bases = _mm256_set1_epi8(static_cast<char>(base));
  for (std::size_t g = 0; g < groups; ++g) {
    const std::byte* words = parts.words + g * Layout::kGroupBytes;
    __m256i top = _mm256_sub_epi8(bases, negated_values(words));
    if constexpr (Layout::kBelow > 0) {
      const __m256i mask = _mm256_set1_epi8(static_cast<char>(0xff << Layout::kBelow));
      top = _mm256_and_si256(_mm256_slli_epi16(top, Layout::kBelow), mask);
      top = _mm256_sub_epi8(top, negated_values(words + 12));
    }
    __m256i low = swap_quarters(load(parts.low + g * kGroup));
    put_turned_16(floats + g * kGroup * 2, _mm256_unpacklo_epi8(low, top));
    put_turned_16(floats + g * kGroup * 2 + 32, _mm256_unpackhi_epi8(low, top));
  }
}

CKPT_AVX2 __m256i turned_32(const std::byte* from) {
  __m256i raw = load(from);
  return _mm256_or_si256(_mm256_slli_epi32(raw, 1), _mm256_srli_epi32(raw, 31));
}
CKPT_AVX2 __m256i low_halves(__m256i a, __m256i b) {
  const __m256i mask = _mm256_set1_epi32(0xffff);
  return swap_quarters(_mm256_packus_epi32(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)));
}
CKPT_AVX2 __m256i high_halves(__m256i a, __m256i b) {
  return swap_quarters(_mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16)));
}

[[gnu::target("avx2")]] void pack_32(const GroupParts& parts, std::size_t groups, std::uint8_t base,
                                     std::uint32_t* escapes) {
  const __m256i bases = _mm256_set1_epi8(static_cast<char>(base));
  for (std::size_t g = 0; g < groups; ++g) {
    const std::byte* from = parts.floats + g * kGroup * 4;
    __m256i a = turned_32(from);
    __m256i b = turned_32(from + 32);
    __m256i c = turned_32(from + 64);
    __m256i d = turned_32(from + 96);
    store(parts.low + g * kGroup * 2, low_halves(a, b));
    store(parts.low + g * kGroup * 2 + 32, low_halves(c, d));
    a = high_halves(a, b);
    c = high_halves(c, d);
    store(parts.middle + g * kGroup, low_bytes(a, c));
    escapes[g] = put_codes(high_bytes(a, c), bases, parts.words + g * F32::kGroupBytes);
  }
}

/// Eight floats; `top` holds their exponents in its lower half.
CKPT_AVX2 void put_floats_32(__m128i top, const std::byte* low, const std::byte* middle, std::byte* to) {
  __m256i turned = _mm256_slli_epi32(_mm256_cvtepu8_epi32(top), 24);
  turned = _mm256_or_si256(turned, _mm256_slli_epi32(_mm256_cvtepu8_epi32(load_quarter(middle)), 16));
  turned = _mm256_or_si256(turned, _mm256_cvtepu16_epi32(load_half(low)));
  store(to, _mm256_or_si256(_mm256_srli_epi32(turned, 1), _mm256_slli_epi32(turned, 31)));
}

[[gnu::target("avx2")]] void unpack_32(const ConstGroupParts& parts, std::size_t groups, std::uint8_t base,
                                       std::byte* floats) {
  const __m256i bases = _mm256_set1_epi8(static_cast<char>(base));
  for (std::size_t g = 0; g < groups; ++g) {
    __m256i top = _mm256_sub_epi8(bases, negated_values(parts.words + g * F32::kGroupBytes));
    __m128i even = _mm256_castsi256_si128(top);  // floats 0 to 7 and 16 to 23
    __m128i odd = _mm256_extracti128_si256(top, 1);
    const std::byte* low = parts.low + g * kGroup * 2;
    const std::byte* middle = parts.middle + g * kGroup;
    std::byte* to = floats + g * kGroup * 4;
    put_floats_32(even, low, middle, to);
    put_floats_32(odd, low + 16, middle + 8, to + 32);
    put_floats_32(_mm_srli_si128(even, 8), low + 32, middle + 16, to + 64);
    put_floats_32(_mm_srli_si128(odd, 8), low + 48, middle + 24, to + 96);
  }
}

// GCC 12 takes what the intrinsics leave undefined on purpose for a mistake.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
// A word is a mask of 32 lanes here.
#define CKPT_AVX512_TARGET gnu::target("avx512f,avx512bw,avx512vl,avx512dq")
#define CKPT_AVX512 [[CKPT_AVX512_TARGET, gnu::always_inline]] inline

CKPT_AVX512 __m512i load_512(const std::byte* from) {
  return _mm512_loadu_si512(from);
}
CKPT_AVX512 void put_words_512(__m256i bytes, std::byte* words) {
  core::store_le<std::uint32_t>(words, _mm256_test_epi8_mask(bytes, _mm256_set1_epi8(1)));
  core::store_le<std::uint32_t>(words + 4, _mm256_test_epi8_mask(bytes, _mm256_set1_epi8(2)));
  core::store_le<std::uint32_t>(words + 8, _mm256_test_epi8_mask(bytes, _mm256_set1_epi8(4)));
}
CKPT_AVX512 std::uint32_t put_codes_512(__m256i exponents, __m256i base, std::byte* words) {
  __m256i codes = _mm256_sub_epi8(exponents, base);
  put_words_512(codes, words);
  return _mm256_cmpgt_epu8_mask(codes, _mm256_set1_epi8(kLastCode));
}
/// The values of three words, turned left by `kShift`, added to 32 lanes of 16 bits.
template <unsigned kShift>
CKPT_AVX512 __m512i add_values_16(__m512i lanes, const std::byte* words) {
  auto mask = [&](std::size_t k) { return core::load_le<std::uint32_t>(words + 4 * k); };
  lanes = _mm512_mask_add_epi16(lanes, mask(0), lanes, _mm512_set1_epi16(static_cast<short>(1U << kShift)));
  lanes = _mm512_mask_add_epi16(lanes, mask(1), lanes, _mm512_set1_epi16(static_cast<short>(2U << kShift)));
  return _mm512_mask_add_epi16(lanes, mask(2), lanes, _mm512_set1_epi16(static_cast<short>(4U << kShift)));
}

template <class Layout>
[[CKPT_AVX512_TARGET]] void pack_16_512(const GroupParts& parts, std::size_t groups, std::uint8_t base,
                                        std::uint32_t* escapes) {
  const __m256i bases = _mm256_set1_epi8(static_cast<char>(base));
  for (std::size_t g = 0; g < groups; ++g) {
    __m512i raw = load_512(parts.floats + g * kGroup * 2);
    __m512i turned = _mm512_or_si512(_mm512_slli_epi16(raw, 1), _mm512_srli_epi16(raw, 15));
    store(parts.low + g * kGroup, _mm512_cvtepi16_epi8(turned));
    std::byte* words = parts.words + g * Layout::kGroupBytes;
    if constexpr (Layout::kBelow > 0) put_words_512(_mm512_cvtepi16_epi8(_mm512_srli_epi16(turned, 8)), words + 12);
    escapes[g] = put_codes_512(_mm512_cvtepi16_epi8(_mm512_srli_epi16(turned, 8 + Layout::kBelow)), bases, words);
  }
}

template <class Layout>
[[CKPT_AVX512_TARGET]] void unpack_16_512(const ConstGroupParts& parts, std::size_t groups, std::uint8_t base,
                                          std::byte* floats) {
  constexpr unsigned kShift = 8 + Layout::kBelow;
  const __m512i bases = _mm512_set1_epi16(static_cast<short>(base << kShift));
  for (std::size_t g = 0; g < groups; ++g) {
    const std::byte* words = parts.words + g * Layout::kGroupBytes;
    __m512i turned = add_values_16<kShift>(bases, words);
    if constexpr (Layout::kBelow > 0) turned = add_values_16<8>(turned, words + 12);
    turned = _mm512_or_si512(turned, _mm512_cvtepu8_epi16(load(parts.low + g * kGroup)));
    turned = _mm512_or_si512(_mm512_srli_epi16(turned, 1), _mm512_slli_epi16(turned, 15));
    _mm512_storeu_si512(floats + g * kGroup * 2, turned);
  }
}

[[CKPT_AVX512_TARGET]] void pack_32_512(const GroupParts& parts, std::size_t groups, std::uint8_t base,
                                        std::uint32_t* escapes) {
  const __m256i bases = _mm256_set1_epi8(static_cast<char>(base));
  for (std::size_t g = 0; g < groups; ++g) {
    const std::byte* from = parts.floats + g * kGroup * 4;
    __m128i tops[2];
    for (std::size_t half = 0; half < 2; ++half) {
      __m512i turned = _mm512_rol_epi32(load_512(from + half * 64), 1);
      store(parts.low + g * kGroup * 2 + half * 32, _mm512_cvtepi32_epi16(turned));
      std::byte* middle = parts.middle + g * kGroup + half * 16;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(middle), _mm512_cvtepi32_epi8(_mm512_srli_epi32(turned, 16)));
      tops[half] = _mm512_cvtepi32_epi8(_mm512_srli_epi32(turned, 24));
    }
    escapes[g] = put_codes_512(_mm256_set_m128i(tops[1], tops[0]), bases, parts.words + g * F32::kGroupBytes);
  }
}

[[CKPT_AVX512_TARGET]] void unpack_32_512(const ConstGroupParts& parts, std::size_t groups, std::uint8_t base,
                                          std::byte* floats) {
  const __m512i bases = _mm512_set1_epi32(static_cast<int>(std::uint32_t{base} << 24));
  for (std::size_t g = 0; g < groups; ++g) {
    const std::byte* words = parts.words + g * F32::kGroupBytes;
    for (std::size_t half = 0; half < 2; ++half) {
      __m512i turned = bases;
      for (std::size_t k = 0; k < 3; ++k) {
        auto mask = core::load_le<std::uint16_t>(words + 4 * k + 2 * half);
        turned = _mm512_mask_add_epi32(turned, mask, turned, _mm512_set1_epi32(1 << (24 + k)));
      }
      __m512i middle = _mm512_cvtepu8_epi32(load_half(parts.middle + g * kGroup + half * 16));
      __m512i low = _mm512_cvtepu16_epi32(load(parts.low + g * kGroup * 2 + half * 32));
      turned = _mm512_or_si512(turned, _mm512_or_si512(_mm512_slli_epi32(middle, 16), low));
      _mm512_storeu_si512(floats + g * kGroup * 4 + half * 64, _mm512_ror_epi32(turned, 1));
    }
  }
}

#pragma GCC diagnostic pop

template <class Layout>
FloatGroups choose() {
  constexpr FloatGroups kPlain = {&pack_plain<Layout>, &unpack_plain<Layout>};
  if constexpr (Layout::kWidth == 2) {
    return core::cpu::by_isa(kPlain, FloatGroups{&pack_16<Layout>, &unpack_16<Layout>},
                             FloatGroups{&pack_16_512<Layout>, &unpack_16_512<Layout>});
  } else {
    return core::cpu::by_isa(kPlain, FloatGroups{&pack_32, &unpack_32}, FloatGroups{&pack_32_512, &unpack_32_512});
  }
}
#else
template <class Layout>
FloatGroups choose() {
  return {&pack_plain<Layout>, &unpack_plain<Layout>};
}
#endif

}  // namespace

template <class Layout>
const FloatGroups& float_groups() {
  static const FloatGroups groups = choose<Layout>();
  return groups;
}

template const FloatGroups& float_groups<F16>();
template const FloatGroups& float_groups<Bf16>();
template const FloatGroups& float_groups<F32>();

}  // namespace ckpt::detail
