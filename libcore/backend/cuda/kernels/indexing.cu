// Picking and placing by an index tensor. An index out of range raises the device's flag and is passed over. Placing
// and adding sort the places first: with repeated indices the last element wins and sums have the order of the
// elements, as on the CPU, bit for bit. Many elements that meet in one place are added up by teams (run_sums.h).
#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "libcore/backend/cuda/kernels/elements.h"
#include "libcore/backend/cuda/kernels/run_sums.h"
#include "libcore/backend/cuda/kernels/sort.h"
#include "libcore/backend/cuda/kernels/tables.h"
#include "libcore/backend/cuda/kernels/word_loops.h"
#include "libcore/base/error.h"

namespace core::CORE_KERNELS {
namespace {

template <class Word>
struct Take {
  Word* out;
  const Word* in;
  const std::int64_t* index;
  Indexer<3> where;
  std::int64_t step, limit;
  DeviceFlag flag;
  CORE_BODY void operator()(std::int64_t i) const {
    const auto at = where(i);
    const std::int64_t picked = index[at[2]];
    if (picked < 0 || picked >= limit) return flag.raise();
    out[at[0]] = in[at[1] + picked * step];
  }
};

/// Rows of elements that one index stands for are moved as wide words.
WordLoop<3> words_of(const IndexParams& p, std::size_t bytes) {
  WordLoop<3> words(p.loop, bytes);
  words.widen_for(0, p.out);
  words.widen_for(1, p.in);
  words.keep_single(2);
  words.widen_step(p.step);
  return words;
}

template <std::size_t kBytes>
void take_kernel(IndexParams& p) {
  const auto words = words_of(p, kBytes);
  const DeviceFlag flag = device_assert_flag();
  with_words(words, [&]<class Word>(const Loop<3>& loop) {
    for_each(loop.numel, Take<Word>{static_cast<Word*>(p.out), static_cast<const Word*>(p.in), p.index,
                                    Indexer<3>(loop), p.step / words.together(), p.limit, flag});
  });
}

/// A loop in two: over the places that indices choose, and over the elements that one place stands for.
struct Places {
  Loop<3> places;    // out, in, index
  Loop<3> elements;  // of one place
};

Places split(const Loop<3>& loop) {
  Places parts{};
  parts.places.numel = parts.elements.numel = 1;
  for (int d = 0; d < loop.ndim; ++d) {
    // Where out stands still, several elements meet in one place, whether they share an index or not.
    const bool chosen = loop.strides[2][d] != 0 || loop.strides[0][d] == 0;
    Loop<3>& part = chosen ? parts.places : parts.elements;
    part.sizes[part.ndim] = loop.sizes[d];
    for (int k = 0; k < 3; ++k) part.strides[k][part.ndim] = loop.strides[k][d];
    part.numel *= loop.sizes[d];
    ++part.ndim;
  }
  for (Loop<3>* part : {&parts.places, &parts.elements}) {
    if (part->ndim > 0) continue;
    part->ndim = 1;
    part->sizes[0] = 1;
  }
  return parts;
}

/// keys[j]: the offset in out of the j-th place; `nowhere` for an index out of range.
template <class Key>
struct PlaceKeys {
  Key* keys;
  const std::int64_t* index;
  Indexer<3> where;
  std::int64_t step, limit;
  Key nowhere;
  DeviceFlag flag;
  CORE_BODY void operator()(std::int64_t j) const {
    const auto at = where(j);
    const std::int64_t picked = index[at[2]];
    const bool fits = picked >= 0 && picked < limit;
    if (!fits) flag.raise();
    keys[j] = fits ? static_cast<Key>(at[0] + picked * step) : nowhere;
  }
};

/// Element `i` of the places in order: of all that share a place, the first adds all up or the last is put.
template <class T, class Key, bool kAdd>
struct PutInOrder {
  T* out;
  const T* in;
  const Key* keys;
  const std::uint32_t* order;
  std::int64_t count;  // of places
  Key nowhere;
  Indexer<3> places, elements;
  Splitter per_place;
  CORE_BODY void operator()(std::int64_t i) const {
    const std::int64_t j = per_place.quotient(i);
    const Key key = keys[j];
    const std::int64_t neighbour = kAdd ? j - 1 : j + 1;
    if (key == nowhere || (neighbour >= 0 && neighbour < count && keys[neighbour] == key)) return;
    const auto element = elements(per_place.rest(i, j));
    T& target = out[static_cast<std::int64_t>(key) + element[0]];
    if constexpr (kAdd) {
      if (is_long_run(keys, j, count)) return;
      Computed<T> sum = widen(target);
      for (std::int64_t k = j; k < count && keys[k] == key; ++k) {
        sum = static_cast<Computed<T>>(sum + widen(in[places(order[k])[1] + element[1]]));
      }
      target = narrow<T>(sum);
    } else {
      target = in[places(order[j])[1] + element[1]];
    }
  }
};

/// `loop` and `step` count in elements of T.
template <class T, bool kAdd, class Key>
void put_by_key(const IndexParams& p, const Places& parts, std::int64_t step, std::uint64_t last_key) {
  const std::int64_t count = parts.places.numel;
  const auto key_bytes = static_cast<std::size_t>(count) * sizeof(Key);
  const Scratch keys(key_bytes), sorted(key_bytes), order(static_cast<std::size_t>(count) * sizeof(std::uint32_t));
  const Indexer<3> places(parts.places);
  const Key nowhere = static_cast<Key>(last_key + 1);
  for_each(count, PlaceKeys<Key>{keys.as<Key>(), p.index, places, step, p.limit, nowhere, device_assert_flag()});
  sort_lines(keys.as<Key>(), sorted.as<Key>(), order.as<std::uint32_t>(),
             {1, count, static_cast<int>(std::bit_width(last_key + 1))});
  for_each(count * parts.elements.numel,
           PutInOrder<T, Key, kAdd>{static_cast<T*>(p.out), static_cast<const T*>(p.in), sorted.as<Key>(),
                                    order.as<std::uint32_t>(), count, nowhere, places, Indexer<3>(parts.elements),
                                    Splitter(parts.elements.numel, count * parts.elements.numel)});
  if constexpr (kAdd) {
    const Scratch from(static_cast<std::size_t>(count) * sizeof(std::int64_t));
    auto* offsets = from.as<std::int64_t>();
    const auto* ordered = order.as<std::uint32_t>();
    for_each(count, [=] CORE_BODY(std::int64_t j) { offsets[j] = places(ordered[j])[1]; });
    add_long_runs<T, Key>({static_cast<T*>(p.out), static_cast<const T*>(p.in), sorted.as<Key>(), offsets, count,
                           Indexer<3>(parts.elements), parts.elements.numel},
                          nowhere);
  }
}

template <class T, bool kAdd>
void put_in_order(const IndexParams& p, const Loop<3>& loop, std::int64_t step) {
  if (loop.numel == 0) return;
  const Places parts = split(loop);
  std::uint64_t last_key = static_cast<std::uint64_t>(std::max<std::int64_t>(p.limit - 1, 0) * step);
  for (int d = 0; d < parts.places.ndim; ++d) {
    last_key += static_cast<std::uint64_t>((parts.places.sizes[d] - 1) * parts.places.strides[0][d]);
  }
  if (last_key < UINT32_MAX) {
    put_by_key<T, kAdd, std::uint32_t>(p, parts, step, last_key);
  } else {
    put_by_key<T, kAdd, std::uint64_t>(p, parts, step, last_key);
  }
}

template <std::size_t kBytes>
void put_kernel(IndexParams& p) {
  const auto words = words_of(p, kBytes);
  with_words(words,
             [&]<class Word>(const Loop<3>& loop) { put_in_order<Word, false>(p, loop, p.step / words.together()); });
}

template <class T>
void accumulate_kernel(IndexParams& p) {
  put_in_order<T, true>(p, p.loop, p.step);
}

template <std::size_t kBytes>
void set_moves(IndexingTable& table) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (bit_width(static_cast<DType>(i)) != static_cast<int>(kBytes) * 8) continue;
    table.index[static_cast<std::size_t>(IndexOp::take)][static_cast<std::size_t>(i)] = take_kernel<kBytes>;
    table.index[static_cast<std::size_t>(IndexOp::put)][static_cast<std::size_t>(i)] = put_kernel<kBytes>;
  }
}

template <class... Ts>
void set_sums(IndexingTable& table) {
  ((table.index[static_cast<std::size_t>(IndexOp::accumulate)][static_cast<std::size_t>(dtype_of<Ts>)] =
        accumulate_kernel<Ts>),
   ...);
}

}  // namespace

void fill_indexing(IndexingTable& table) {
  set_moves<1>(table);
  set_moves<2>(table);
  set_moves<4>(table);
  set_moves<8>(table);
  set_sums<std::uint8_t, std::int8_t, std::int16_t, std::int32_t, std::int64_t, Half, BFloat16, float, double>(table);
}

}  // namespace core::CORE_KERNELS
