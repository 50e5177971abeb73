#pragma once
// align: learns the rules that make the tensors of one checkpoint those of another: which key became which, what was
// transposed, reshaped, split, fused, cast or tied. Contents decide where they can (also those of transposes, of parts,
// of casts), then the names of neighbours, then shapes and order. Names are generalised to patterns (layer indices),
// and the rules are applied to A and compared with B before they are given out. Thread safety: pure. Use:
// ckpt::AlignResult r = ckpt::align(a, b); save_text(ckpt::to_toml(r.rules));

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/report.h"
#include "libckpt/transform/rules.h"

namespace ckpt {

struct AlignOptions {
  std::string at_a = {};  ///< which state dict, where a file holds several; "" = the only one outside optimizer states
  std::string at_b = {};
  /// Tensors of A that B does not have are dropped by a rule; else they are leftovers.
  bool drop_unused = false;
  /// Tensors with other values may be paired by name, shape and order; else only contents count.
  bool by_shape = true;
  bool generalize = true;  ///< patterns instead of one pair a key
  unsigned threads = 0;
  Progress progress = {};  ///< bytes of both sides, hashed for the first time
};

/// Tensors of A that make tensors of B; one on either side but for splits and fuses.
struct AlignedTensors {
  enum class By : std::uint8_t { content, name, shape };
  std::vector<std::string> from;
  std::vector<std::string> to;
  std::string how;  ///< "", "transposed", "reshaped", "split", "fused", "cast to bfloat16", "tied", joined by " and "
  By by = By::content;
};

struct AlignResult {
  Rules rules;
  std::vector<AlignedTensors> pairs;   ///< in the order of A
  std::vector<std::string> only_in_a;  ///< what no rule uses (dropped, when the options say so)
  std::vector<std::string> only_in_b;  ///< what no rule makes
  /// After the rules: tensors of B that A's are bit for bit, and those that only agree in name, dtype and shape.
  std::uint64_t verified = 0;
  std::uint64_t other_values = 0;
  std::vector<std::string> wrong;  ///< tensors of B that the rules do not reproduce as they should
  /// Everything on both sides is explained and the rules do what they should.
  bool complete = false;
};

/// "content", "name", "shape".
std::string_view name(AlignedTensors::By by);

/// Errors: those of reading; Error(usage) listing the candidates when a file holds several state dicts.
AlignResult align(const Checkpoint& a, const Checkpoint& b, const AlignOptions& options = {});

}  // namespace ckpt
