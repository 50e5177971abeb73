#pragma once
// DictBuilder: the items of a Python dict, with Python's rules for equal keys (1, 1.0 and True are one key; a second
// value replaces the first in its place). Thread safety: one owner. Use: DictBuilder b(n); b.set(key, value); b.take()

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "libckpt/value.h"

namespace ckpt {

class DictBuilder {
 public:
  explicit DictBuilder(std::size_t expected);
  /// True when the key was there already. Errors: Error(corrupt) for a key that Python cannot hash.
  bool set(Value key, Value value);
  std::vector<std::pair<Value, Value>> take() { return std::move(items_); }

 private:
  std::vector<std::pair<Value, Value>> items_;
  std::unordered_map<std::string, std::size_t> places_;
};

/// Error(corrupt) for lists, dicts, sets and bytearrays, also inside tuples: they cannot be keys or members of sets.
void check_hashable(const Value& value);

/// The bytes that Latin-1 makes of UTF-8 text; nullopt when a character is past 0xff.
std::optional<core::ByteVector> latin1_bytes(std::string_view text);
/// The UTF-8 text whose Latin-1 bytes these are.
std::string latin1_text(core::Bytes bytes);

}  // namespace ckpt
