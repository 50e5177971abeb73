// Copies between layouts and dtypes, fills, ranges.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "libcore/backend/cuda/kernels/elements.h"
#include "libcore/backend/cuda/kernels/move_tiles.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/cuda/kernels/word_loops.h"
#include "libcore/base/float8.h"

namespace core::CORE_KERNELS {
namespace {

// Conversion. One kernel knows all pairs of dtypes: an element is loaded as one of four kinds of number, which every
// dtype is then made from. The two switches are the same for all threads and next to the memory traffic cost little.

enum class Kind : std::uint8_t { integer, natural, single, real };

CORE_HD Kind kind_of(DType dtype) {
  switch (dtype) {
    case DType::u64:
      return Kind::natural;
    case DType::f16:
    case DType::bf16:
    case DType::f32:
      return Kind::single;
    case DType::f64:
      return Kind::real;
    default:
      return Kind::integer;
  }
}

/// V elements from memory as numbers of type N. `left`: how many there are.
template <class T, class N, int V>
CORE_BODY void load_as(const void* in, std::int64_t first, std::int64_t left, N (&to)[V]) {
  const T* from = static_cast<const T*>(in) + first;
  if (left >= V) {
    const auto pack = *reinterpret_cast<const Pack<T, V>*>(from);
    for (int k = 0; k < V; ++k) to[k] = static_cast<N>(widen(pack.values[k]));
  } else {
    for (int k = 0; k < V; ++k) to[k] = static_cast<N>(widen(from[k < left ? k : 0]));
  }
}

template <int V>
CORE_BODY void load(DType dtype, const void* in, std::int64_t first, std::int64_t left, std::int64_t (&to)[V]) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8:
      return load_as<std::uint8_t>(in, first, left, to);
    case DType::i8:
      return load_as<std::int8_t>(in, first, left, to);
    case DType::i16:
      return load_as<std::int16_t>(in, first, left, to);
    case DType::u16:
      return load_as<std::uint16_t>(in, first, left, to);
    case DType::i32:
      return load_as<std::int32_t>(in, first, left, to);
    case DType::u32:
      return load_as<std::uint32_t>(in, first, left, to);
    default:
      return load_as<std::int64_t>(in, first, left, to);
  }
}
template <int V>
CORE_BODY void load(DType dtype, const void* in, std::int64_t first, std::int64_t left, float (&to)[V]) {
  switch (dtype) {
    case DType::f16:
      return load_as<Half>(in, first, left, to);
    case DType::bf16:
      return load_as<BFloat16>(in, first, left, to);
    default:
      return load_as<float>(in, first, left, to);
  }
}
template <int V>
CORE_BODY void load(DType, const void* in, std::int64_t first, std::int64_t left, std::uint64_t (&to)[V]) {
  load_as<std::uint64_t>(in, first, left, to);
}
template <int V>
CORE_BODY void load(DType, const void* in, std::int64_t first, std::int64_t left, double (&to)[V]) {
  load_as<double>(in, first, left, to);
}

/// C++'s conversion, made total as the CPU's (cpu/elementwise/convert.cpp): what int32 cannot hold is INT32_MIN, and so
/// are NaN and what goes to fewer bits, of which it leaves the low ones; uint32 and 64 bits are made by way of int64.
template <class To, class From>
CORE_BODY To convert_number(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_same_v<To, Half>) {
    if constexpr (std::is_same_v<From, double>) return to_half(value);
    return to_half(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bfloat16(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> &&
                       (sizeof(To) < 4 || std::is_same_v<To, std::int32_t>)) {
    const bool fits = value >= From(-0x1p31) && value < From(0x1p31);
    return static_cast<To>(fits ? static_cast<std::int32_t>(value) : INT32_MIN);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr double kTop = 9223372036854775808.0;
    if (!(value >= static_cast<From>(-kTop) && value < static_cast<From>(kTop))) {
      if (std::is_same_v<To, std::uint64_t> && value >= From(0) && value < From(2) * static_cast<From>(kTop)) {
        return static_cast<To>(value);
      }
      return static_cast<To>(INT64_MIN);
    }
    return static_cast<To>(static_cast<std::int64_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <class T, class N, int V>
CORE_BODY void store_as(void* out, std::int64_t first, std::int64_t left, const N (&from)[V]) {
  T* to = static_cast<T*>(out) + first;
  if (left >= V) {
    Pack<T, V> pack;
    for (int k = 0; k < V; ++k) pack.values[k] = convert_number<T>(from[k]);
    *reinterpret_cast<Pack<T, V>*>(to) = pack;
  } else {
    for (int k = 0; k < V; ++k) {
      if (k < left) to[k] = convert_number<T>(from[k]);
    }
  }
}

template <class N, int V>
CORE_BODY void store(DType dtype, void* out, std::int64_t first, std::int64_t left, const N (&from)[V]) {
  switch (dtype) {
    case DType::boolean:
      return store_as<bool>(out, first, left, from);
    case DType::u8:
      return store_as<std::uint8_t>(out, first, left, from);
    case DType::i8:
      return store_as<std::int8_t>(out, first, left, from);
    case DType::i16:
      return store_as<std::int16_t>(out, first, left, from);
    case DType::u16:
      return store_as<std::uint16_t>(out, first, left, from);
    case DType::i32:
      return store_as<std::int32_t>(out, first, left, from);
    case DType::u32:
      return store_as<std::uint32_t>(out, first, left, from);
    case DType::i64:
      return store_as<std::int64_t>(out, first, left, from);
    case DType::u64:
      return store_as<std::uint64_t>(out, first, left, from);
    case DType::f16:
      return store_as<Half>(out, first, left, from);
    case DType::bf16:
      return store_as<BFloat16>(out, first, left, from);
    case DType::f32:
      return store_as<float>(out, first, left, from);
    default:
      return store_as<double>(out, first, left, from);
  }
}

struct Conversion {
  DType from, to;

  template <int V>
  CORE_BODY void run(void* out, std::int64_t out_first, const void* in, std::int64_t in_first,
                     std::int64_t left) const {
    switch (kind_of(from)) {
      case Kind::integer:
        return run_as<std::int64_t, V>(out, out_first, in, in_first, left);
      case Kind::natural:
        return run_as<std::uint64_t, V>(out, out_first, in, in_first, left);
      case Kind::single:
        return run_as<float, V>(out, out_first, in, in_first, left);
      case Kind::real:
        return run_as<double, V>(out, out_first, in, in_first, left);
    }
  }
  template <class N, int V>
  CORE_BODY void run_as(void* out, std::int64_t out_first, const void* in, std::int64_t in_first,
                        std::int64_t left) const {
    N numbers[V];
    load(from, in, in_first, left, numbers);
    store(to, out, out_first, left, numbers);
  }
};

struct ConvertPacks {
  static constexpr int kV = 4;
  Conversion conversion;
  void* out;
  const void* in;
  std::int64_t count;
  CORE_BODY void operator()(std::int64_t i) const { conversion.run<kV>(out, i * kV, in, i * kV, count - i * kV); }
};
struct ConvertElements {
  Conversion conversion;
  void* out;
  const void* in;
  Indexer<2> where;
  CORE_BODY void operator()(std::int64_t i) const {
    const auto at = where(i);
    conversion.run<1>(out, at[0], in, at[1], 1);
  }
};

void run_conversion(const CopyParams& p, DType from, DType to) {
  constexpr int kV = ConvertPacks::kV;
  const Conversion conversion{from, to};
  if (is_dense(p.loop, 0) && is_dense(p.loop, 1) && is_aligned(p.out, element_bytes(to) * kV) &&
      is_aligned(p.in, element_bytes(from) * kV)) {
    return for_each(divide_up(p.loop.numel, kV), ConvertPacks{conversion, p.out, p.in, p.loop.numel});
  }
  for_each(p.loop.numel, ConvertElements{conversion, p.out, p.in, Indexer<2>(p.loop)});
}

template <int kFrom, int kTo>
void convert_kernel(const CopyParams& p) {
  run_conversion(p, static_cast<DType>(kFrom), static_cast<DType>(kTo));
}

constexpr int kNumbers = static_cast<int>(DType::f64) + 1;  // the dtypes that C++ code can hold come first

template <int kFrom, int... kTos>
void set_conversions(CopyTable& table, std::integer_sequence<int, kTos...>) {
  ((table.convert[kFrom][kTos] = convert_kernel<kFrom, kTos>), ...);
}
template <int... kFroms>
void fill_conversions(CopyTable& table, std::integer_sequence<int, kFroms...> all) {
  (set_conversions<kFroms>(table, all), ...);
}

/// The 8-bit floats by a table of all their values.
struct WidenBytes {
  float* out;
  const std::uint8_t* in;
  Indexer<2> where;
  float values[256];
  CORE_BODY void operator()(std::int64_t i) const {
    const auto at = where(i);
    out[at[0]] = values[in[at[1]]];
  }
};

template <DType kFrom>
void widen_f8_kernel(const CopyParams& p) {
  WidenBytes body{static_cast<float*>(p.out), static_cast<const std::uint8_t*>(p.in), Indexer<2>(p.loop), {}};
  for (int bits = 0; bits < 256; ++bits) body.values[bits] = f8_to_f32(kFrom, static_cast<std::uint8_t>(bits));
  for_each(p.loop.numel, body);
}

/// Codes grow with the numbers: a code is how many of the least numbers that have a larger one are no larger.
struct NarrowBytes {
  std::uint8_t* out;
  const float* in;
  Indexer<2> where;
  std::uint8_t nan;        ///< without its sign
  bool has_sign, is_fnuz;  ///< fnuz: neither of zero nor of NaN
  float least[256];        ///< of a larger code than its place; infinity's successor, NaN, where there is none
  CORE_BODY void operator()(std::int64_t i) const {
    const auto at = where(i);
    const float value = in[at[1]];
    const float size = value < 0 ? -value : value;
    int code = 0;
    for (int step = 128; step > 0; step /= 2) code += size >= least[code + step - 1] ? step : 0;
    if (value != value) code = nan;
    const bool is_plain = !has_sign || (is_fnuz && (code == 0 || code == nan));
    out[at[0]] =
        static_cast<std::uint8_t>(code | (!is_plain && std::bit_cast<std::uint32_t>(value) >> 31 != 0 ? 0x80 : 0));
  }
};

/// The least number above 0 whose code is above `code`; NaN where there is none.
float least_above(DType dtype, int code) {
  std::uint32_t low = 0, high = 0x7f800001U;  // bits of numbers, in their order; the last is no number
  while (low + 1 < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    (f32_to_f8(dtype, std::bit_cast<float>(middle)) > code ? high : low) = middle;
  }
  return std::bit_cast<float>(high);
}

/// For each code; found once, as that takes thousands of conversions.
template <DType kTo>
const std::array<float, 256>& least_numbers() {
  static const std::array<float, 256> least = [] {
    std::array<float, 256> found;
    for (int code = 0; code < 256; ++code) found[static_cast<std::size_t>(code)] = least_above(kTo, code);
    return found;
  }();
  return least;
}

template <DType kTo>
void narrow_f8_kernel(const CopyParams& p) {
  NarrowBytes body{
      static_cast<std::uint8_t*>(p.out), static_cast<const float*>(p.in), Indexer<2>(p.loop), 0, true, false, {}};
  body.nan = f32_to_f8(kTo, std::numeric_limits<float>::quiet_NaN());
  body.has_sign = kTo != DType::f8_e8m0fnu;
  body.is_fnuz = kTo == DType::f8_e4m3fnuz || kTo == DType::f8_e5m2fnuz;
  std::copy(least_numbers<kTo>().begin(), least_numbers<kTo>().end(), body.least);
  for_each(p.loop.numel, body);
}

template <DType... kTypes>
void set_f8(CopyTable& table) {
  ((table.convert[static_cast<std::size_t>(DType::f32)][static_cast<std::size_t>(kTypes)] = narrow_f8_kernel<kTypes>),
   ...);
  ((table.convert[static_cast<std::size_t>(kTypes)][static_cast<std::size_t>(DType::f32)] = widen_f8_kernel<kTypes>),
   ...);
}

// Moves, of words as wide as the layout allows.

template <class Word>
struct MoveWords {
  Word* out;
  const Word* in;
  Indexer<2> where;
  CORE_BODY void operator()(std::int64_t i) const {
    const auto at = where(i);
    out[at[0]] = in[at[1]];
  }
};

/// The dimension that `in` runs along where `out` runs along dimension 0, or 0 where tiles would not pay.
int transposed_dim(const Loop<2>& loop) {
  constexpr std::int64_t kLeast = 16;
  if (loop.numel == 0 || loop.strides[0][0] != 1 || loop.strides[1][0] == 1 || loop.sizes[0] < kLeast) return 0;
  for (int d = 1; d < loop.ndim; ++d) {
    if (loop.strides[1][d] == 1 && loop.sizes[d] >= kLeast) return d;
  }
  return 0;
}

template <class Word>
void move_transposed(const CopyParams& p, const Loop<2>& loop, int dim) {
  Loop<2> rest{0, 1, {1}, {}};
  for (int d = 1; d < loop.ndim; ++d) {
    if (d == dim) continue;
    rest.sizes[rest.ndim] = loop.sizes[d];
    for (int k = 0; k < 2; ++k) rest.strides[k][rest.ndim] = loop.strides[k][d];
    rest.numel *= loop.sizes[d];
    ++rest.ndim;
  }
  rest.ndim = std::max(rest.ndim, 1);
  using Body = MoveTiles<Word>;
  const std::int64_t tiles = divide_up(loop.sizes[0], Body::kTile), others = divide_up(loop.sizes[dim], Body::kTile);
  for_each_row(rest.numel * tiles * others, 256, Body::kBytes,
               Body{static_cast<Word*>(p.out), static_cast<const Word*>(p.in), loop.sizes[0], loop.sizes[dim],
                    loop.strides[1][0], loop.strides[0][dim], tiles, others, Indexer<2>(rest)});
}

template <std::size_t kBytes>
void move_kernel(const CopyParams& p) {
  WordLoop<2> words(p.loop, kBytes);
  words.widen_for(0, p.out);
  words.widen_for(1, p.in);
  with_words(words, [&]<class Word>(const Loop<2>& loop) {
    if constexpr (!std::is_same_v<Word, Wide>) {
      if (const int dim = transposed_dim(loop); dim != 0) return move_transposed<Word>(p, loop, dim);
    }
    for_each(loop.numel, MoveWords<Word>{static_cast<Word*>(p.out), static_cast<const Word*>(p.in), Indexer<2>(loop)});
  });
}

template <class Word>
struct FillWords {
  Word* out;
  Word value;
  Indexer<1> where;
  CORE_BODY void operator()(std::int64_t i) const { out[where(i)[0]] = value; }
};

template <std::size_t kBytes>
void fill_kernel(const CopyParams& p) {
  Loop<1> only_out{p.loop.ndim, p.loop.numel, {}, {}};
  std::copy_n(p.loop.sizes, p.loop.ndim, only_out.sizes);
  std::copy_n(p.loop.strides[0], p.loop.ndim, only_out.strides[0]);
  WordLoop<1> words(only_out, kBytes);
  words.widen_for(0, p.out);
  unsigned char pattern[sizeof(Wide)];
  for (std::size_t at = 0; at < sizeof pattern; at += kBytes) std::memcpy(pattern + at, p.in, kBytes);
  with_words(words, [&]<class Word>(const Loop<1>& loop) {
    Word value;
    std::memcpy(&value, pattern, sizeof value);
    for_each(loop.numel, FillWords<Word>{static_cast<Word*>(p.out), value, Indexer<1>(loop)});
  });
}

template <class T>
struct RangeElements {
  using Number = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
  T* out;
  Number start, step;
  CORE_BODY void operator()(std::int64_t i) const { out[i] = static_cast<T>(start + static_cast<Number>(i) * step); }
};

template <class T>
void range_kernel(const UnaryParams& p) {
  using Number = typename RangeElements<T>::Number;
  for_each(p.loop.numel,
           RangeElements<T>{static_cast<T*>(p.out), static_cast<Number>(p.args[0]), static_cast<Number>(p.args[1])});
}

template <std::size_t... kBytes>
void set_moves(CopyTable& table) {
  ((table.move[kBytes] = move_kernel<kBytes>), ...);
  ((table.fill[kBytes] = fill_kernel<kBytes>), ...);
}
template <class... Ts>
void set_ranges(CopyTable& table) {
  ((table.range[static_cast<std::size_t>(dtype_of<Ts>)] = range_kernel<Ts>), ...);
}

}  // namespace

void fill_copies(CopyTable& table) {
  fill_conversions(table, std::make_integer_sequence<int, kNumbers>());
  set_f8<DType::f8_e4m3fn, DType::f8_e5m2, DType::f8_e4m3fnuz, DType::f8_e5m2fnuz, DType::f8_e8m0fnu>(table);
  set_moves<1, 2, 4, 8, 16>(table);
  set_ranges<std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, float, double>(table);
}

}  // namespace core::CORE_KERNELS
