#pragma once
// Attributes of an object: texts, numbers and lists of them. Thread safety: one thread.
// Use: AttributeWriter attributes; attributes.put_all(object, reply.content());

#include <hdf5.h>

#include <cstdint>

#include "libcore/base/bytes.h"

namespace ckpt::detail {

class AttributeWriter {
 public:
  /// Appends the number of attributes and each of them, in the order in which they were made where the object keeps it
  /// (`list` is its creation list), else by name. What is no text or number, or too large, is named only.
  void put_all(hid_t object, hid_t list, core::ByteVector& out);

 private:
  void put(hid_t object, const char* name, core::ByteVector& out);

  std::uint64_t budget_ = 256ULL << 20;  ///< bytes of values in the whole file
};

}  // namespace ckpt::detail
