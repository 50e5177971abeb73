#pragma once
// What an object header says of one thing in two places must agree: sizes of types, shapes, places in the file and
// values of attributes. It is compared before libhdf5 opens the object, which believes one place and takes memory as
// the other says. Thread safety: one thread. Use: HeaderCheck check(file, base, widths); check.require_good(address);

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "libckpt/hdf5/helper/heap_texts.h"
#include "libckpt/hdf5/helper/object_header.h"
#include "libckpt/hdf5/helper/type_message.h"

namespace ckpt::detail {

class HeaderCheck {
 public:
  HeaderCheck(ReadOnlyFile& file, std::uint64_t base, const Hdf5Widths& widths)
      : reader_(file, base, widths), heap_(reader_) {}

  /// Throws Failure(corrupt | refused) when the object at `address` contradicts itself. Messages that lie in the table
  /// of shared messages, and attributes in dense storage, are left to libhdf5.
  void require_good(std::uint64_t address);

  /// Bytes of what lies in collections; nullopt when not all of it was seen.
  std::optional<std::uint64_t> elsewhere() const { return all_seen_ ? heap_.bytes() : std::nullopt; }
  /// Attributes in the headers that were looked at.
  std::uint64_t attributes() const { return attributes_; }

 private:
  struct Space {
    bool simple = true;  ///< false: no elements and no shape
    std::vector<std::uint64_t> sides = {};
    std::optional<std::uint64_t> count = 1;  ///< of elements; nullopt: more than 64 bits count
  };

  void check_layout(const ObjectHeader& header);
  void check_chunks(ByteCursor& in, std::uint8_t version, const Space& space, std::uint64_t width) const;
  void check_attribute(core::Bytes content);
  void check_values(ByteCursor& in, const TypeClaim& type, const Space& space);
  Space take_space(ByteCursor& in) const;
  std::optional<TypeClaim> take_type(core::Bytes content, bool shared);
  std::optional<TypeClaim> committed_type(core::Bytes content);

  HeaderReader reader_;
  HeapTexts heap_;
  std::unordered_map<std::uint64_t, TypeClaim> committed_;  ///< by address
  std::uint64_t attributes_ = 0;
  bool all_seen_ = true;
};

}  // namespace ckpt::detail
