#pragma once
// Words of bfloat16 packed as what they miss by: from the words before and a matrix of low rank it is foretold what
// each becomes, and the miss is in the Huffman codes of the exponent that was foretold. Only who has the words before
// unpacks them. The form is in FORMAT_NATIVE.md ("Differences that are foretold"). Thread safety: pure functions; a
// PredictedWords is read only. Errors: Error(corrupt) for bytes that were not packed so; what is packed has checksums.
// Use: const ByteVector a(512), b(512); ByteVector packed = pack_predicted(a, b, 16, nullptr);

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "libckpt/io/byte_source.h"

namespace ckpt {

inline constexpr std::uint64_t kPredictedBlock = 256ULL << 10;  ///< bytes that are unpacked together

namespace detail {
struct Directions;
}

/// Whether a matrix of so many bytes and columns is large enough for directions to help.
bool has_factors(std::uint64_t bytes, std::uint64_t columns);

/// What the rows of a matrix move along, found of all or some of them; null where nothing is.
std::shared_ptr<const detail::Directions> common_directions(Bytes before, Bytes after, std::uint64_t columns);

/// `after` packed by `before`, both rows of so many words, which move along `directions` (may be null). It may take
/// more bytes than they do. `bring(end)`, where there is one, is called before so many bytes of both are used, all of
/// them in the end. REQUIRES: both are of one size, which fits 31 bits, and whole rows; something is in them.
core::ByteVector pack_predicted(Bytes before, Bytes after, std::uint64_t columns, const detail::Directions* directions,
                                const std::function<void(std::uint64_t end)>& bring = {});

/// Whether that takes so much less than pack_words() of the differences that the longer time to unpack it is worth it,
/// by a sample of both. REQUIRES: both are of one size, whole words.
bool prediction_pays(Bytes before, Bytes after);

class PredictedWords {
 public:
  /// Those that begin at `offset` of `in`, for words of `size` bytes; null where no such begin. `in` is used as long.
  static std::optional<PredictedWords> find(const ByteSource& in, std::uint64_t offset, std::uint64_t size);
  PredictedWords(PredictedWords&&) noexcept;
  ~PredictedWords();

  /// Turns words before into those after, from byte `at` on. REQUIRES: whole blocks, the last one of what is left.
  void add(std::uint64_t at, MutableBytes words) const;

 private:
  struct Head;
  explicit PredictedWords(std::unique_ptr<const Head> head);
  std::unique_ptr<const Head> head_;
};

}  // namespace ckpt
