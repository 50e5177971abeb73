#pragma once
// sequence_of: a list, tuple, set or frozenset of other items, for walks that rebuild a tree.
// Thread safety: pure. Use: Value same_kind = sequence_of(value.kind(), std::move(items));

#include <utility>

#include "libckpt/value.h"

namespace ckpt::detail {

/// REQUIRES: a kind of sequence.
inline Value sequence_of(Value::Kind kind, Value::List items) {
  switch (kind) {
    case Value::Kind::tuple:
      return Value::tuple(std::move(items));
    case Value::Kind::set:
      return Value::set(std::move(items));
    case Value::Kind::frozenset:
      return Value::frozenset(std::move(items));
    default:
      return Value::list(std::move(items));
  }
}

}  // namespace ckpt::detail
