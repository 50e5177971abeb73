#pragma once
// align: learns the rules that make the tensors of one checkpoint those of another: which key became which, what was
// transposed, reshaped, split, fused, cast or tied. Names that are equal, or equal up to a common prefix or suffix,
// decide first; then values that no other tensor of the file has, also those of transposes, of parts, of casts; then
// the place in the model (tensors of one repeated value have nothing else): the modules of pairs that are known,
// shapes, neighbours, numbers in names. What none of these decides is left out of the rules and said. Names are
// generalised to patterns (layer indices), and the rules are applied to A and compared with B before they are given
// out. Thread safety: pure. Use: ckpt::AlignResult r = ckpt::align(a, b); std::cout << ckpt::to_toml(r);

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
  /// Tensors with other values may be paired by name and place; else only equal values are.
  bool by_shape = true;
  bool generalize = true;  ///< patterns instead of one pair a key
  unsigned threads = 0;
  Progress progress = {};  ///< bytes of both sides, hashed for the first time
};

/// Tensors of A that make tensors of B; one on either side but for splits and fuses.
struct AlignedTensors {
  /// What the pair rests on: values that only these two have; names alone; the place in the model alone.
  enum class By : std::uint8_t { content, name, structure };
  std::vector<std::string> from;
  std::vector<std::string> to;
  std::string how;  ///< "", "transposed", "reshaped", "split", "fused", "cast to bfloat16", "tied", joined by " and "
  By by = By::content;
};

/// Tensors of which nothing says which is which, or how one became the other. No rule touches them.
struct UndecidedTensors {
  std::vector<std::string> a;
  std::vector<std::string> b;
};

struct AlignResult {
  Rules rules;
  std::vector<AlignedTensors> pairs;   ///< in the order of A
  std::vector<std::string> only_in_a;  ///< what no rule uses (dropped, when the options say so)
  std::vector<std::string> only_in_b;  ///< what no rule makes
  std::vector<UndecidedTensors> undecided;
  /// After the rules: tensors of B that A's are bit for bit, and those that only agree in name, dtype and shape.
  std::uint64_t verified = 0;
  std::uint64_t other_values = 0;
  std::vector<std::string> wrong;  ///< tensors of B that the rules do not reproduce as they should
  /// Everything on both sides is explained and the rules do what they should.
  bool complete = false;
};

/// "content", "name", "structure".
std::string_view name(AlignedTensors::By by);

/// "bn1.bias -> module.bn1.bias  (transposed)  (by name)"
std::string describe(const AlignedTensors& pair);
/// "ln_a.weight, ln_b.weight of A; norm_x.weight, norm_y.weight of B", of many the first eight.
std::string describe(const UndecidedTensors& tensors);
/// The rules, with comments that list the pairs by name or structure alone and what is not decided.
std::string to_toml(const AlignResult& result);

/// Errors: those of reading; Error(usage) listing the candidates when a file holds several state dicts.
AlignResult align(const Checkpoint& a, const Checkpoint& b, const AlignOptions& options = {});

}  // namespace ckpt
