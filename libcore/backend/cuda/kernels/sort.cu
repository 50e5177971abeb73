// Sorting along one dimension: elements become unsigned keys in the same order, lines of keys are sorted (short ones in
// the shared memory of a team, long ones by the radix sort of CUB), and elements are gathered in the order found.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>

#ifdef __CUDACC__
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_radix_sort.cuh>
#endif

#include "libcore/backend/cuda/kernels/elements.h"
#include "libcore/backend/cuda/kernels/sort.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/base/error.h"

namespace core::CORE_KERNELS {
namespace {

constexpr std::int64_t kShortLine = 1024;  // what a team sorts

/// Bitonic sort (Batcher 1968) of pairs of key and position, which differ all, so that the order is the stable one. A
/// line is filled up to a power of two by pairs that come last.
template <class Key>
struct SortShortLine {
  struct Pair {
    Key key;
    std::uint32_t position;
  };
  const Key* keys;
  Key* sorted;
  std::uint32_t* positions;
  int length, filled;

  CORE_HD static bool before(const Pair& a, const Pair& b) {
    return a.key < b.key || (a.key == b.key && a.position < b.position);
  }
  CORE_BODY void operator()(const Team& team, std::int64_t line) const {
    Pair* pairs = team.shared<Pair>();
    for (int i = team.lane(); i < filled; i += team.size()) {
      pairs[i] = {i < length ? keys[line * length + i] : static_cast<Key>(~Key{0}), static_cast<std::uint32_t>(i)};
    }
    CORE_NO_UNROLL
    for (int run = 2; run <= filled; run *= 2) {
      CORE_NO_UNROLL
      for (int reach = run / 2; reach > 0; reach /= 2) {
        team.sync();
        for (int i = team.lane(); i < filled / 2; i += team.size()) exchange(pairs, i, run, reach);
      }
    }
    team.sync();
    for (int i = team.lane(); i < length; i += team.size()) {
      sorted[line * length + i] = pairs[i].key;
      positions[line * length + i] = pairs[i].position;
    }
  }
  /// Puts the i-th two elements that are `reach` apart in the order of their run.
  CORE_BODY static void exchange(Pair* pairs, int i, int run, int reach) {
    const int low = i / reach * 2 * reach + i % reach, high = low + reach;
    const bool ascending = (low & run) == 0;
    const Pair a = pairs[low], b = pairs[high];
    if (before(b, a) != ascending) return;
    pairs[low] = b;
    pairs[high] = a;
  }
};

struct PositionsInLines {
  std::uint32_t* positions;
  Splitter lines;
  CORE_BODY void operator()(std::int64_t i) const {
    positions[i] = static_cast<std::uint32_t>(lines.rest(i, lines.quotient(i)));
  }
};

#ifdef __CUDACC__

struct LineStarts {
  std::int64_t* starts;
  std::int64_t length;
  CORE_BODY void operator()(std::int64_t line) const { starts[line] = line * length; }
};

/// call(temporary, bytes) first asks for the bytes, then works.
template <class Call>
void with_temporary(const Call& call) {
  std::size_t bytes = 0;
  cudaError_t error = call(nullptr, bytes);
  if (error == cudaSuccess) {
    const Scratch temporary(bytes);
    error = call(temporary.as<void>(), bytes);
  }
  check_launch();
  if (error != cudaSuccess) throw Error(ErrorCode::runtime, std::string("CUDA error: ") + cudaGetErrorString(error));
}

template <class Key>
void sort_long_lines(const Key* keys, Key* sorted, std::uint32_t* positions, const KeyLines& lines) {
  constexpr std::int64_t kManyLines = 64;  // from here on a block for each line keeps the device busy
  const std::int64_t count = lines.lines * lines.length;
  const Scratch unsorted(static_cast<std::size_t>(count) * sizeof(std::uint32_t));
  auto* from = unsorted.as<std::uint32_t>();
  for_each(count, PositionsInLines{from, Splitter(lines.length, count)});
  if (lines.lines < kManyLines) {
    for (std::int64_t at = 0; at < count; at += lines.length) {
      with_temporary([&](void* temporary, std::size_t& bytes) {
        return cub::DeviceRadixSort::SortPairs(temporary, bytes, keys + at, sorted + at, from + at, positions + at,
                                               lines.length, 0, lines.bits, current_stream());
      });
    }
    return;
  }
  const Scratch line_starts(static_cast<std::size_t>(lines.lines + 1) * sizeof(std::int64_t));
  auto* starts = line_starts.as<std::int64_t>();
  for_each(lines.lines + 1, LineStarts{starts, lines.length});
  with_temporary([&](void* temporary, std::size_t& bytes) {
    return cub::DeviceSegmentedRadixSort::SortPairs(temporary, bytes, keys, sorted, from, positions, count, lines.lines,
                                                    starts, starts + 1, 0, lines.bits, current_stream());
  });
}

#else

template <class Key>
void sort_long_lines(const Key* keys, Key* sorted, std::uint32_t* positions, const KeyLines& lines) {
  const std::int64_t count = lines.lines * lines.length;
  for_each(count, PositionsInLines{positions, Splitter(lines.length, count)});
  for (std::int64_t at = 0; at < count; at += lines.length) {
    std::stable_sort(positions + at, positions + at + lines.length,
                     [&](std::uint32_t a, std::uint32_t b) { return keys[at + a] < keys[at + b]; });
    for (std::int64_t i = 0; i < lines.length; ++i) sorted[at + i] = keys[at + positions[at + i]];
  }
}

#endif

template <class Key>
void sort_any_lines(const Key* keys, Key* sorted, std::uint32_t* positions, const KeyLines& lines) {
  if (lines.length >= std::int64_t{1} << 32) {
    throw Error(ErrorCode::unsupported, "sort: a line of " + std::to_string(lines.length) +
                                            " elements, where a CUDA device sorts fewer than 4294967296");
  }
  if (lines.length > kShortLine) return sort_long_lines(keys, sorted, positions, lines);
  const auto filled =
      static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(lines.length, 1))));
  using Body = SortShortLine<Key>;
  for_each_row(lines.lines, filled / 2, static_cast<std::size_t>(filled) * sizeof(typename Body::Pair),
               Body{keys, sorted, positions, static_cast<int>(lines.length), filled});
}

// Keys: unsigned numbers in the order of the elements.

template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

/// NaN counts as larger than everything; the two zeros are equal.
template <class T>
CORE_HD KeyOf<T> key_of(T x) {
  using Key = KeyOf<T>;
  if constexpr (std::is_floating_point_v<T>) {
    constexpr Key kSign = Key{1} << (sizeof(Key) * 8 - 1);
    if (x != x) return static_cast<Key>(~Key{0});
    const Key bits = same_bits<Key>(x == T(0) ? T(0) : x);
    return (bits & kSign) != 0 ? static_cast<Key>(~bits) : bits | kSign;
  } else if constexpr (std::is_signed_v<T>) {
    constexpr Key kSign = Key{1} << (sizeof(T) * 8 - 1);
    return (static_cast<Key>(x) & (kSign | (kSign - 1))) ^ kSign;
  } else {
    return x;
  }
}

/// What of a sort all kernels need: lines of `length` elements.
struct LinePlaces {
  Indexer<2> first;
  Splitter lines;
  std::int64_t out_step, in_step;
};

template <class T>
struct MakeKeys {
  KeyOf<T>* keys;
  const T* in;
  LinePlaces places;
  KeyOf<T> flip;  // all bits of a key where the order is descending
  CORE_BODY void operator()(std::int64_t i) const {
    const std::int64_t line = places.lines.quotient(i), at = places.lines.rest(i, line);
    keys[i] = key_of(in[places.first(line)[1] + at * places.in_step]) ^ flip;
  }
};

/// Moves elements of as many bytes as Word.
template <class Word>
struct Gather {
  Word* values;
  std::int64_t* indices;
  const Word* in;
  const std::uint32_t* positions;
  LinePlaces places;
  CORE_BODY void operator()(std::int64_t i) const {
    const std::int64_t line = places.lines.quotient(i), at = places.lines.rest(i, line);
    const auto first = places.first(line);
    const std::int64_t to = first[0] + at * places.out_step, from = positions[i];
    values[to] = in[first[1] + from * places.in_step];
    indices[to] = from;
  }
};

template <class T, class Word, int kBits>
void sort_kernel(const SortParams& p) {
  using Key = KeyOf<T>;
  const std::int64_t count = p.lines.numel * p.length;
  if (count == 0) return;
  const auto keys_at = static_cast<std::size_t>(count) * sizeof(Key);
  const Scratch keys(keys_at), sorted(keys_at), positions(static_cast<std::size_t>(count) * sizeof(std::uint32_t));
  const LinePlaces places{Indexer<2>(p.lines), Splitter(p.length, count), p.out_step, p.in_step};
  const Key all_bits = static_cast<Key>(~Key{0}) >> (sizeof(Key) * 8 - kBits);
  for_each(count, MakeKeys<T>{keys.as<Key>(), static_cast<const T*>(p.in), places, p.descending ? all_bits : Key{0}});
  sort_lines(keys.as<Key>(), sorted.as<Key>(), positions.as<std::uint32_t>(), {p.lines.numel, p.length, kBits});
  for_each(count, Gather<Word>{static_cast<Word*>(p.values), p.indices, static_cast<const Word*>(p.in),
                               positions.as<std::uint32_t>(), places});
}

}  // namespace

void sort_lines(const std::uint32_t* keys, std::uint32_t* sorted, std::uint32_t* positions, const KeyLines& lines) {
  sort_any_lines(keys, sorted, positions, lines);
}
void sort_lines(const std::uint64_t* keys, std::uint64_t* sorted, std::uint32_t* positions, const KeyLines& lines) {
  sort_any_lines(keys, sorted, positions, lines);
}

void fill_sorts(ReductionTable& table) {
  const auto set = [&](DType dtype, void (*kernel)(const SortParams&)) {
    table.sort[static_cast<std::size_t>(dtype)] = kernel;
  };
  set(DType::boolean, sort_kernel<std::uint8_t, std::uint8_t, 8>);
  set(DType::u8, sort_kernel<std::uint8_t, std::uint8_t, 8>);
  set(DType::i8, sort_kernel<std::int8_t, std::uint8_t, 8>);
  set(DType::i16, sort_kernel<std::int16_t, std::uint16_t, 16>);
  set(DType::i32, sort_kernel<std::int32_t, std::uint32_t, 32>);
  set(DType::i64, sort_kernel<std::int64_t, std::uint64_t, 64>);
  set(DType::f32, sort_kernel<float, std::uint32_t, 32>);
  set(DType::f64, sort_kernel<double, std::uint64_t, 64>);
}

}  // namespace core::CORE_KERNELS
