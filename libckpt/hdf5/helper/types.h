#pragma once
// Types of elements as the library's dtype names. Thread safety: one thread. Use: TypeFacts facts =
// describe_type(type);

#include <hdf5.h>

#include <cstdint>
#include <string>

namespace ckpt::detail {

struct TypeFacts {
  std::string dtype;        ///< "float32", "bool", "complex64", "opaque16"; "" when the elements are no numbers
  std::string what;         ///< for a person: "compound of 3 members", "text of any length"
  std::uint8_t flags = 0;   ///< TypeFlag
  std::uint64_t width = 0;  ///< bytes of an element
};

/// Throws Failure(corrupt) for a type whose size contradicts what it holds.
TypeFacts describe_type(hid_t type);

}  // namespace ckpt::detail
