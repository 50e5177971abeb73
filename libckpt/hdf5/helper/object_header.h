#pragma once
// The messages of an object header, read without libhdf5: what it would believe of types, shapes and places can so be
// checked before it does. Thread safety: one thread.
// Use: ObjectHeader header = HeaderReader(file, base, widths).read(address);

#include <cstdint>
#include <deque>
#include <vector>

#include "libckpt/hdf5/helper/file_driver.h"
#include "libckpt/io/byte_cursor.h"

namespace ckpt::detail {

/// Bytes of an address and of a size in this file, as its superblock says; nearly always 8.
struct Hdf5Widths {
  std::size_t address = 8;
  std::size_t size = 8;
};

/// HDF5 File Format Specification, IV.A.2.
enum MessageKind : std::uint16_t {
  kMessageSpace = 1,
  kMessageType = 3,
  kMessageLayout = 8,
  kMessageAttribute = 12,
  kMessageContinuation = 16,
};

struct HeaderMessage {
  std::uint16_t kind = 0;
  bool shared = false;  ///< the content says where the message is
  core::Bytes content;
};

struct ObjectHeader {
  std::deque<core::ByteVector> blocks;
  std::vector<HeaderMessage> messages;  ///< they look into the blocks

  /// The first of this kind, or null.
  const HeaderMessage* find(MessageKind kind) const;
};

/// A number of `width` bytes (1 to 8).
std::uint64_t take_number(ByteCursor& in, std::size_t width);

class HeaderReader {
 public:
  /// `base` is where address 0 lies in the file.
  HeaderReader(ReadOnlyFile& file, std::uint64_t base, const Hdf5Widths& widths)
      : file_(file), base_(base), widths_(widths) {}

  /// Throws Failure(corrupt | refused), Error(corrupt) for a header that is cut or too long.
  ObjectHeader read(std::uint64_t address) const;
  /// Bytes from an address of the file.
  core::ByteVector bytes(std::uint64_t address, std::uint64_t size) const;
  const Hdf5Widths& widths() const { return widths_; }

 private:
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t size = 0;
  };
  void read_old(std::uint64_t address, ObjectHeader& header) const;
  void read_new(std::uint64_t address, ObjectHeader& header) const;
  core::Bytes keep(const Block& block, ObjectHeader& header) const;
  void follow(const HeaderMessage& message, std::vector<Block>& blocks) const;

  ReadOnlyFile& file_;
  std::uint64_t base_;
  Hdf5Widths widths_;
};

}  // namespace ckpt::detail
