#include "libckpt/io/word_kernels.h"

#include <array>
#include <bit>

#include "libcore/backend/cpu/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace ckpt::detail {
namespace {

std::size_t ones_plain(Bytes masks) {
  std::size_t sum = 0;
  for (std::byte mask : masks) sum += std::popcount(static_cast<unsigned>(mask));
  return sum;
}

void put_zeros_in_plain(const std::byte* masks, const std::byte* values, std::byte* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool there = (masks[i / kBytesOfMask] >> i % kBytesOfMask & std::byte{1}) != std::byte{0};
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
    for (unsigned i = 0; i < kBytesOfMask; ++i) places[mask] |= ((mask >> i & 1) != 0 ? next++ : 0x80) << 8 * i;
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
  constexpr std::size_t kStep = 8 * kBytesOfMask;
  static_assert(kStep <= kPastBytes);
  for (std::size_t i = 0; i < count; i += kStep) {
    const auto all = core::load_le<std::uint64_t>(masks + i / kBytesOfMask);
    if (all == 0) {
      store_32(out + i, _mm256_setzero_si256());
      store_32(out + i + 32, _mm256_setzero_si256());
      continue;
    }
    for (std::size_t k = 0; k < 8; ++k) {
      const auto mask = static_cast<std::uint8_t>(all >> 8 * k);
      const __m128i spread = _mm_shuffle_epi8(load_8(values), load_8(&kZeroPlaces[mask]));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i + k * kBytesOfMask), spread);
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
  constexpr std::size_t kStep = 8 * kBytesOfMask;
  static_assert(kStep <= kPastBytes);
  for (std::size_t i = 0; i < count; i += kStep) {
    const auto all = core::load_le<std::uint64_t>(masks + i / kBytesOfMask);
    _mm512_storeu_si512(out + i, _mm512_maskz_expand_epi8(all, _mm512_loadu_si512(values)));
    values += __builtin_popcountll(all);
  }
}

[[CKPT_AVX512, gnu::always_inline]] inline void add_32(std::byte* to, __m512i words) {
  const __m512i signs = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(words, _mm512_set1_epi16(1)));
  const __m512i numbers = _mm512_xor_si512(_mm512_srli_epi16(words, 1), signs);
  _mm512_storeu_si512(to, _mm512_add_epi16(_mm512_loadu_si512(to), numbers));
}

[[CKPT_AVX512, gnu::always_inline]] inline void add_64(std::byte* to, __m512i low, __m512i high) {
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __m512i a = _mm512_unpacklo_epi8(low, high);
  const __m512i b = _mm512_unpackhi_epi8(low, high);
  add_32(to, _mm512_permutex2var_epi64(a, first, b));
  add_32(to + 64, _mm512_permutex2var_epi64(a, second, b));
}

[[CKPT_AVX512]] void add_2_avx512(const std::byte* planes, std::byte* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + 64 <= count; i += 64) {
    add_64(to + 2 * i, _mm512_loadu_si512(planes + i), _mm512_loadu_si512(planes + count + i));
  }
  add_from<std::uint16_t>(i, planes, to, count);
}

/// The next 64 bytes of a plane.
[[CKPT_AVX512, gnu::always_inline]] inline __m512i take_64(SpreadPlane& plane) {
  if (plane.bytes == nullptr) return _mm512_setzero_si512();
  const __m512i bytes = _mm512_loadu_si512(plane.bytes);
  if (plane.masks == nullptr) {
    plane.bytes += kSpread;
    return bytes;
  }
  const auto all = core::load_le<std::uint64_t>(plane.masks);
  plane.masks += kSpread / kBytesOfMask;
  plane.bytes += __builtin_popcountll(all);
  return _mm512_maskz_expand_epi8(all, bytes);
}

/// Zeros come back in registers, so that no plane is written and read again.
[[CKPT_AVX512]] void add_2_spread_avx512(const SpreadPlane* planes, std::byte* to, std::size_t count) {
  SpreadPlane low = planes[0], high = planes[1];
  for (std::size_t i = 0; i < count; i += kSpread) {
    const __m512i low_bytes = take_64(low);
    add_64(to + 2 * i, low_bytes, take_64(high));
  }
}
#endif

}  // namespace

const WordKernels& word_kernels() {
  static constexpr WordKernels kPlain = {&ones_plain, &put_zeros_in_plain, &add_plain<std::uint16_t>,
                                         &add_plain<std::uint32_t>, nullptr};
#if defined(__x86_64__)
  static constexpr WordKernels kAvx2 = {&ones_avx2, &put_zeros_in_avx2, &add_2_avx2, &add_4_avx2, nullptr};
  static constexpr WordKernels kAvx512 = {&ones_avx2, &put_zeros_in_avx512, &add_2_avx512, &add_4_avx2,
                                          &add_2_spread_avx512};
  static const WordKernels& best = *core::cpu::by_isa(&kPlain, &kAvx2, core::cpu::spreads_bytes() ? &kAvx512 : &kAvx2);
  return best;
#else
  return kPlain;
#endif
}

void add_planes(std::uint32_t width, const std::byte* planes, std::byte* to, std::size_t count) {
  if (width == 2) return word_kernels().add_2(planes, to, count);
  if (width == 4) return word_kernels().add_4(planes, to, count);
  of_width(width, [&]<class Word>(Word) { add_plain<Word>(planes, to, count); });
}

}  // namespace ckpt::detail
