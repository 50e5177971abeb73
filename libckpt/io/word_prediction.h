#pragma once
// What a word of bfloat16 becomes, foretold from the word before and a matrix of low rank, and the words from what the
// foretelling missed by, by the instructions of this processor: the same bits on every one. Internal to libckpt/io.
// Never throws. Thread safety: pure functions. Use: std::uint16_t word = restored_word(16256, 0, 3);

#include <cstddef>
#include <cstdint>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

inline constexpr std::size_t kAtOnce = 2048;  ///< words, so few that all that is known of them stays near the processor
inline constexpr std::size_t kPastLarge = 16;  ///< see PredictionKernels::find_large
inline constexpr unsigned kMostRank = 16;
inline constexpr int kMostFactor = 15;  ///< of one factor, so that a sum of products fits 16 bits
inline constexpr int kMostShift = 100;  ///< see Prediction::shift
static_assert(kMostRank * kMostFactor * kMostFactor <= INT16_MAX);

/// How words are foretold. A word of the base is a float; `shift` says what a move of 1 is, 2^-shift. Contexts are
/// exponents of what comes out, from `top` down; what is above or below belongs to the first or the last.
struct Prediction {
  int shift = 0;
  int top = 0;
  int contexts = 1;
};

/// Factors of some words of one row: word i moves by the sum over k of row[k] * columns[k * stride + i].
struct Moves {
  const std::int8_t* row;
  const std::int16_t* columns;
  std::size_t stride;
  unsigned rank;  ///< 0: words are foretold as they are
};

/// Of every word: what is foretold, 0xffff where what it is missed by has its sign turned, and its context as
/// context_codes.h takes it.
struct Predicted {
  std::uint16_t* words;
  std::uint16_t* turned;
  std::uint16_t* places;
};

struct PredictionKernels {
  /// REQUIRES: at most kAtOnce words; floats are rounded to the nearest (NearestRounding).
  void (*predict)(const std::byte* base, const Moves& moves, std::size_t count, const Prediction& how,
                  const Predicted& out);
  /// By what words miss, as a number of few bits where that is little, and the lesser of that and `most`.
  void (*misses)(const std::byte* words, const Predicted& predicted, std::size_t count, std::uint16_t* out,
                 std::uint8_t* limited, std::uint8_t most);
  /// The words, where they miss by what one byte tells.
  void (*restore)(const std::byte* misses, const Predicted& predicted, std::size_t count, std::byte* words);
  /// Places of bytes of `least` or more into `where`. Returns how many there are. REQUIRES: room for kPastLarge more.
  std::size_t (*find_large)(const std::byte* bytes, std::size_t count, std::uint8_t least, std::uint16_t* where);
};

const PredictionKernels& prediction_kernels();

/// restore() of one word, which may miss by anything.
std::uint16_t restored_word(std::uint16_t predicted, std::uint16_t turned, std::uint16_t miss);

/// While it lives, floats of this thread are rounded to the nearest, whatever its caller asked for.
class NearestRounding {
 public:
  NearestRounding();
  ~NearestRounding();
  NearestRounding(const NearestRounding&) = delete;
  NearestRounding& operator=(const NearestRounding&) = delete;

 private:
  int before_;
};

}  // namespace ckpt::detail
