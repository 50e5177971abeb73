#pragma once
// Loops that only move elements, whatever they mean: neighbouring elements are taken together as wider words, up to 16
// bytes, as far as sizes, strides and addresses allow. Thread safety: plain values.
// Use: WordLoop<2> words(p.loop, 4); words.widen_for(0, p.out); words.widen_for(1, p.in);
//      with_words(words, [&]<class Word>(const Loop<2>& loop) { ... });

#include <cstddef>
#include <cstdint>

#include "libcore/backend/cuda/kernels/elements.h"

namespace core::CORE_KERNELS {

/// A loop over elements of `bytes` bytes that will run over words of `together` elements.
template <int N>
class WordLoop {
 public:
  /// Every operand starts out as one that widening concerns.
  WordLoop(const Loop<N>& loop, std::size_t bytes) : loop_(loop), bytes_(bytes) {
    while (loop.numel > 0 && bytes * static_cast<std::size_t>(together_) < sizeof(Wide)) {
      if (loop.sizes[0] % (together_ * 2) != 0) break;
      together_ *= 2;
    }
  }
  /// Operand k starts at `data`: its elements must lie side by side and whole words begin at multiples of their size.
  void widen_for(int k, const void* data) {
    keep([&](std::int64_t together) {
      if (together == 1) return true;
      bool fits = loop_.strides[k][0] == 1 && is_aligned(data, bytes_ * static_cast<std::size_t>(together));
      for (int d = 1; d < loop_.ndim; ++d) fits = fits && loop_.strides[k][d] % together == 0;
      return fits;
    });
  }
  /// Operand k is the same for all elements of dimension 0 and is never widened.
  void keep_single(int k) {
    keep([&](std::int64_t together) { return together == 1 || loop_.strides[k][0] == 0; });
  }
  /// A distance in elements that must be whole words.
  void widen_step(std::int64_t step) {
    keep([&](std::int64_t together) { return step % together == 0; });
  }

  std::size_t word_bytes() const { return bytes_ * static_cast<std::size_t>(together_); }
  std::int64_t together() const { return together_; }
  /// The loop over words; operands whose dimension 0 has stride 0 are left as they were.
  Loop<N> loop() const {
    Loop<N> words = loop_;
    if (together_ == 1) return words;
    words.numel /= together_;
    words.sizes[0] /= together_;
    for (int k = 0; k < N; ++k) {
      if (loop_.strides[k][0] == 0) continue;
      for (int d = 1; d < loop_.ndim; ++d) words.strides[k][d] /= together_;
    }
    return words;
  }

 private:
  template <class Fits>
  void keep(const Fits& fits) {
    while (!fits(together_)) together_ /= 2;
  }

  Loop<N> loop_;
  std::size_t bytes_;
  std::int64_t together_ = 1;
};

/// run.template operator()<Word>(loop) with the word of the right size.
template <int N, class Run>
void with_words(const WordLoop<N>& words, const Run& run) {
  switch (words.word_bytes()) {
    case 1:
      return run.template operator()<std::uint8_t>(words.loop());
    case 2:
      return run.template operator()<std::uint16_t>(words.loop());
    case 4:
      return run.template operator()<std::uint32_t>(words.loop());
    case 8:
      return run.template operator()<std::uint64_t>(words.loop());
    default:
      return run.template operator()<Wide>(words.loop());
  }
}

}  // namespace core::CORE_KERNELS
