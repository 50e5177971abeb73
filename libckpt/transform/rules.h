#pragma once
// Rules: how the tensors of one naming become those of another, as data: a file that people write or `ckpt align`
// learns, that the tool, a C++ program and a loader apply, and that can be turned round. In TOML:
//   [[rule]]
//   rename = "encoder.layers.encoder_layer_{#i}.ln_1.*"     # pattern.h; or a list of pairs, which act at once
//   to = "blocks.{i}.norm1.*"
//   [[rule]]
//   drop = "*.num_batches_tracked"                          # selector.h
//   [[rule]]
//   transpose = "*.c_attn.weight"                           # dims = [1, 0] says which way
//   [[rule]]
//   reshape = "*.gamma"
//   shape = [-1, 1, 1]                                      # -1: what is left, 0: as it is; was = [-1] to go back
//   [[rule]]
//   split = "h.{#i}.attn.qkv.*"
//   to = ["h.{i}.q.*", "h.{i}.k.*", "h.{i}.v.*"]            # dim = 0; sizes = [64, 64, 64], else equal parts
//   [[rule]]
//   fuse = ["h.{#i}.q.*", "h.{i}.k.*", "h.{i}.v.*"]         # the first is the pattern, the others follow from it
//   to = "h.{i}.attn.qkv.*"
//   [[rule]]
//   cast = "*.weight @dtype=f32"
//   dtype = "bf16"                                          # was = "f32" makes a widening one reversible
//   [[rule]]
//   tie = "lm_head.weight"                                  # becomes (or is added as) another name of
//   to = "transformer.wte.weight"
//   [[rule]]
//   add = "*.running_var"                                   # a number to every value
//   value = 9.9e-4
//   [[rule]]
//   fold = "*.conv{#i}.bias"                                # goes into others: is taken off, multiplies or is added
//   to = "*.bn{i}.running_mean"                             # (add), along their first dimension; or a list of them
//   by = "subtract"
//   [[rule]]
//   unfold = "*.bn{#i}.running_mean"                        # the way back: a tensor that changes nothing appears,
//   to = "*.conv{i}.bias"                                   # zeros (or ones), as long as the first dimension here
//   by = "subtract"
//   [[rule]]
//   make = "normalization.mean"                             # a tensor with these values; drop has them as `was` to go
//   values = [0.485, 0.456, 0.406]                          # back. A number alone is a tensor without dimensions
//   dtype = "f32"
// or in JSON: {"rules": [{"rename": ..., "to": ...}, ...]}, or just {"old key": "new key", ...}, one rename that acts
// at once (so a swap works). Rules act one after the other, each on what the ones before it left. A table [about] says
// whose names they are (rule_pack.h). Thread safety: pure.
// Use: ckpt::Checkpoint b = ckpt::apply_rules(a, ckpt::parse_rules(text, "rules.toml"));

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/transform/key_changes.h"
#include "libcore/base/dtype.h"

namespace ckpt {

/// The values of a small tensor.
struct RuleConstant {
  std::vector<double> values = {};
  bool scalar = false;  ///< of no dimension, else of one
};

struct Rule {
  enum class Kind : std::uint8_t { rename, drop, transpose, reshape, split, fuse, cast, tie, add, fold, unfold, make };
  enum class By : std::uint8_t { subtract, multiply, add };
  Kind kind = Kind::rename;
  /// rename: pairs of pattern and template, the first that matches a key counts.
  std::vector<std::pair<std::string, std::string>> names = {};
  /// drop, transpose, reshape, cast, add: a selector. split, tie, fold: one pattern or name. fuse: the parts. unfold:
  /// the tensors that its inverse changes, of which the first says how long the new one is. make: one name.
  std::vector<std::string> from = {};
  /// split: a template a part. fuse, unfold: one template. fold: a template a tensor that it goes into. tie: the name
  /// of the tensor that stays.
  std::vector<std::string> to = {};
  std::vector<std::int64_t> dims = {};   ///< transpose: the new order of dimensions; empty = the last two exchanged
  std::vector<std::int64_t> shape = {};  ///< reshape: at most one -1; 0 keeps the size there
  std::optional<std::vector<std::int64_t>> was_shape = {};  ///< reshape: to go back
  std::int64_t dim = 0;                                     ///< split, fuse; negative counts from behind
  std::vector<std::int64_t> sizes = {};                     ///< split, fuse: along dim; empty = equal parts
  std::optional<core::DType> dtype = {};                    ///< cast, make; drop with a constant
  std::optional<core::DType> was_dtype = {};                ///< cast: only tensors of this dtype; makes it reversible
  double value = 0;                                         ///< add
  By by = By::subtract;                                     ///< fold, unfold
  std::optional<RuleConstant> constant = {};                ///< make; drop: to go back
};

using Rules = std::vector<Rule>;

std::string_view name(Rule::Kind kind);
std::string_view name(Rule::By by);
/// One line for a person: "rename 'a.*' to 'b.*'".
std::string describe(const Rule& rule);

/// `name` is the subject of messages; JSON when the text begins with '{'. TOML may be empty. Errors: Error(corrupt)
/// naming the line for text that is no TOML or JSON; Error(usage) naming the rule for an unknown or missing field, a
/// bad pattern, ...
Rules parse_rules(std::string_view text, std::string_view name);
/// Text that parse_rules() reads back as the same rules.
std::string to_toml(const Rules& rules);

struct RuleOptions {
  /// Dotted path of the one dict to act on; "" = every state dict outside optimizer states.
  std::string at = {};
  bool require_matches = false;  ///< Error(key) listing the rules that match nothing
};

struct RuleReport {
  struct Step {
    std::string rule;           ///< describe(rule)
    std::uint64_t matched = 0;  ///< tensors (and for rename: other values) it acted on; for make: that it made
  };
  std::vector<Step> steps;  ///< one a rule
  /// Keys whose tensor has another name now: only 1:1 moves, old key of the file to the last name.
  KeyChanges keys;
  std::vector<std::string> dropped;    ///< keys that are gone
  std::vector<std::string> made;       ///< keys that came from a split, a fuse, a tie, an unfold or a make
  std::uint64_t changed = 0;           ///< tensors with other bytes, dtype or shape
  std::vector<std::string> unmatched;  ///< rules, and pairs of a rename, that matched nothing
  std::vector<std::string> kept;       ///< tensors that no rule renamed, made or dropped
  /// A sentence for each tensor that a drop took away and that had other values than its `was`.
  std::vector<std::string> lost;
};

/// Nothing is read (but by a tie of two that are both there, and by a drop with `was`): new tensors are computed when
/// their bytes are asked for, with bounded memory. Tied tensors stay tied, per-module versions and names in optimizer
/// states follow. Errors: Error(collision) naming both keys that would become one; Error(key) for a part of a fuse, or
/// the target of a tie or a fold, that is not there; Error(value) naming the tensor whose shape or type does not fit a
/// rule; Error(refused) for a tie of tensors with different values; Error(key) when there is no state dict.
Checkpoint apply_rules(const Checkpoint& checkpoint, const Rules& rules, const RuleOptions& options = {},
                       RuleReport* report = nullptr);

/// Rules that undo these, in the opposite order; what a fold made of several tensors stays together, as it computes the
/// same. Error(unsupported) naming the rule that has no inverse: a drop or a reshape without `was`, a tie, a cast that
/// loses bits, a rename that forgets a capture.
Rules reversed(const Rules& rules);

}  // namespace ckpt
