// HDF5's shuffle filter, sixteen elements at a time: elements of 2^k bytes are spread over planes, and gathered, by k
// rounds of perfect shuffles of vectors, which every processor has instructions for.

#include <cstring>

#include "libckpt/io/codec.h"

namespace ckpt {
namespace {

using Vector = unsigned char __attribute__((vector_size(16)));
constexpr std::size_t kLanes = sizeof(Vector);

constexpr Vector kLowHalves = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
constexpr Vector kHighHalves = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
constexpr Vector kEven = {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
constexpr Vector kOdd = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};

/// Takes the bytes of sixteen elements, one behind the other, apart into planes.
template <std::size_t kWidth>
void take_apart(Vector (&rows)[kWidth]) {
  for (std::size_t round = 1; round < kWidth; round *= 2) {
    Vector next[kWidth];
    for (std::size_t i = 0; i < kWidth / 2; ++i) {
      next[i] = __builtin_shuffle(rows[2 * i], rows[2 * i + 1], kEven);
      next[i + kWidth / 2] = __builtin_shuffle(rows[2 * i], rows[2 * i + 1], kOdd);
    }
    std::memcpy(rows, next, sizeof next);
  }
}

template <std::size_t kWidth>
void put_together(Vector (&rows)[kWidth]) {
  for (std::size_t round = 1; round < kWidth; round *= 2) {
    Vector next[kWidth];
    for (std::size_t i = 0; i < kWidth / 2; ++i) {
      next[2 * i] = __builtin_shuffle(rows[i], rows[i + kWidth / 2], kLowHalves);
      next[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + kWidth / 2], kHighHalves);
    }
    std::memcpy(rows, next, sizeof next);
  }
}

/// Byte by byte, from element `first` on.
template <bool kApart>
void transpose_from(std::size_t first, const std::byte* in, std::byte* out, std::size_t count, std::size_t width) {
  for (std::size_t i = first; i < count; ++i) {
    for (std::size_t b = 0; b < width; ++b) {
      if constexpr (kApart) {
        out[b * count + i] = in[i * width + b];
      } else {
        out[i * width + b] = in[b * count + i];
      }
    }
  }
}

template <bool kApart, std::size_t kWidth>
void transpose(const std::byte* in, std::byte* out, std::size_t count) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    Vector rows[kWidth];
    if constexpr (kApart) {
      std::memcpy(rows, in + i * kWidth, sizeof rows);
      take_apart(rows);
      for (std::size_t b = 0; b < kWidth; ++b) std::memcpy(out + b * count + i, &rows[b], kLanes);
    } else {
      for (std::size_t b = 0; b < kWidth; ++b) std::memcpy(&rows[b], in + b * count + i, kLanes);
      put_together(rows);
      std::memcpy(out + i * kWidth, rows, sizeof rows);
    }
  }
  transpose_from<kApart>(i, in, out, count, kWidth);
}

template <bool kApart>
void transpose_any(Bytes in, std::uint32_t width, MutableBytes out) {
  std::size_t count = in.size() / width;
  switch (width) {
    case 1:
      std::memcpy(out.data(), in.data(), count);
      break;
    case 2:
      transpose<kApart, 2>(in.data(), out.data(), count);
      break;
    case 4:
      transpose<kApart, 4>(in.data(), out.data(), count);
      break;
    case 8:
      transpose<kApart, 8>(in.data(), out.data(), count);
      break;
    case 16:
      transpose<kApart, 16>(in.data(), out.data(), count);
      break;
    default:
      transpose_from<kApart>(0, in.data(), out.data(), count, width);
  }
  std::size_t done = count * width;
  if (done < in.size()) std::memcpy(out.data() + done, in.data() + done, in.size() - done);
}

}  // namespace

void shuffle(Bytes in, std::uint32_t width, MutableBytes out) {
  if (!in.empty()) transpose_any<true>(in, width, out);
}

void unshuffle(Bytes in, std::uint32_t width, MutableBytes out) {
  if (!in.empty()) transpose_any<false>(in, width, out);
}

}  // namespace ckpt
