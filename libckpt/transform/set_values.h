#pragma once
// set_values: the plain values of a checkpoint (epoch, best score, learning rates), set, added and removed without
// touching a tensor. Thread safety: pure. Use: ckpt::ValueEdits edits{.set = {ckpt::parse_value_to_set("epoch=12")}};
// ckpt::Checkpoint c = ckpt::set_values(ckpt::open("net.pth"), edits);

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt {

/// What Python calls int, float, bool, str and None.
enum class PlainKind : std::uint8_t { integer, real, boolean, text, none };
/// "int", "float", "bool", "text", "none".
std::string_view name(PlainKind kind);

/// The new value as text, since the value that is there says what kind the new one has. int: digits behind at most one
/// sign, up to 4,300 of them. float: as Python reads it ("1e-4", "inf", "nan"), to the nearest double; one past its
/// range is an error. bool: "true" or "false", also as Python writes them. text: UTF-8. none: "None", "none" or "".
struct ValueToSet {
  std::string key;                     ///< dotted, as value_at() takes it: "optimizer.param_groups.0.lr"
  std::string text;                    ///< "1e-4"
  std::optional<PlainKind> kind = {};  ///< of a new value, or another one than the value has; else that stays
};

/// Reads KEY=TEXT or KEY:KIND=TEXT, as in "epoch=12", "note:text=final"; cut at the first '='. Errors: Error(usage).
ValueToSet parse_value_to_set(std::string_view text);

struct ValueEdits {
  std::vector<ValueToSet> set = {};
  std::vector<std::string> unset = {};  ///< keys of dicts, or items of lists, to remove
  bool create = false;  ///< a key that is not there is added, behind the last dot of which its dict ends
  std::string at = {};  ///< where the keys begin: "optimizer"; "" for the top
};

struct ValueChange {
  std::string key;            ///< from the top
  std::optional<Value> from;  ///< empty for one that was not there
  std::optional<Value> to;    ///< empty for one that is not there any more
};

/// One object that stands in two places (an aliased dict or list) shows the change in both, as in Python; a tuple is
/// replaced, and only where the key says. Values that are set to what they are do not count as changes, which are
/// listed in the order of `edits`. Errors: Error(key) for a key that is not there, with the nearest one that is;
/// Error(usage) for text that is not of the value's kind, tensors and containers, parts of objects, items of sets, a
/// value named twice, a kind that nothing says (None, an object, a new key). Whether a format has a place for values
/// shows when saving.
Checkpoint set_values(const Checkpoint& checkpoint, const ValueEdits& edits,
                      std::vector<ValueChange>* changes = nullptr);

namespace detail {

/// The value that `wanted` asks for where `old` is (null: nothing). Errors: those of set_values().
Value value_to_set(const ValueToSet& wanted, const Value* old);
/// "a tensor of shape [2, 3]", "a dict of 4 items".
std::string what_it_is(const Value& value);

}  // namespace detail
}  // namespace ckpt
