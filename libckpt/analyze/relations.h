#pragma once
// How one tensor became another: cast, rounded, transposed, reshaped, with rows added. Internal to diff and align.
// Every test stops at the first value that does not fit. Thread safety: pure. Use: find_relation(entry, other);

#include <optional>
#include <string>

#include "libckpt/entry.h"

namespace ckpt::detail {

struct Relation {
  enum class Kind : std::uint8_t {
    cast,        ///< b is a cast to its type
    widened,     ///< a is b cast to its type: b has the bits that a lost
    rounded,     ///< b is a cast to `dtype` and back
    transposed,  ///< the last two dimensions exchanged
    reshaped,
    grown,  ///< b begins with the rows of a
    cut,    ///< a begins with the rows of b
  };
  Kind kind;
  core::DType dtype = core::DType::f32;  ///< cast: of b; widened: of a; rounded: the narrow one
};

/// Nothing when the tensors are equal or no relation holds. REQUIRES: bytes on both sides.
std::optional<Relation> find_relation(const Entry& a, const Entry& b);

}  // namespace ckpt::detail
