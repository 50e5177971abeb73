#pragma once
// ProtoReader: walks over the fields of protobuf messages in a file, through a window of 64 KiB. A library for protobuf
// would copy every weight into memory and stop at 2 GiB; this one passes over what is not asked for, and compares each
// length with the bytes that are there. Thread safety: one owner. Use: ProtoReader in(*file); ProtoRange rest =
// in.all(); while (auto field = in.next(rest)) ...

#include <cstdint>
#include <optional>
#include <string>

#include "libckpt/io/byte_window.h"

namespace ckpt::detail {

/// A message, or what of it is still to be read: bytes of the file.
struct ProtoRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
};

struct ProtoField {
  enum class Kind : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  std::uint32_t number = 0;
  Kind kind = Kind::varint;
  std::uint64_t value = 0;  ///< of a varint
  ProtoRange content;       ///< where its value lies: of bytes without their length

  bool is(std::uint32_t wanted, Kind wanted_kind) const { return number == wanted && kind == wanted_kind; }
};

class ProtoReader {
 public:
  explicit ProtoReader(const ByteSource& file) : bytes_(file) {}

  ProtoRange all() const { return {0, bytes_.source().size()}; }
  /// The field at the beginning of `rest`, which moves behind it; nullopt at the end. Errors: Error(corrupt) for what
  /// is no field, or reaches past the end of `rest`.
  std::optional<ProtoField> next(ProtoRange& rest);
  /// The number at the beginning of `rest`, which moves behind it. Errors: Error(corrupt).
  std::uint64_t varint(ProtoRange& rest);
  /// Text of a field, at most `max` bytes of it. Errors: Error(corrupt) when it is no UTF-8.
  std::string text(const ProtoField& field, std::uint64_t max);

 private:
  ByteWindow bytes_;
};

}  // namespace ckpt::detail
