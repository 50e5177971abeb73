#include "libckpt/hdf5/helper/object_header.h"

#include <algorithm>
#include <string>

namespace ckpt::detail {
namespace {

// HDF5 File Format Specification, IV.A.1.
constexpr std::size_t kOldPrefix = 16;
constexpr std::size_t kOldMessageHead = 8;
constexpr std::size_t kNewPrefix = 6;  ///< signature, version, flags
constexpr std::size_t kMostPrefix = 6 + 16 + 4 + 8;
constexpr std::size_t kNewMessageHead = 4;
constexpr std::size_t kSignature = 4;
constexpr std::size_t kChecksum = 4;
constexpr std::uint8_t kShared = 2;
constexpr std::uint64_t kMaxHeader = 64ULL << 20;  ///< bytes in all blocks
constexpr std::size_t kMaxBlocks = 65'536;

[[noreturn]] void fail_object_header(const std::string& what) {
  throw Failure{kFailureCorrupt, "its object header " + what};
}

void take_messages(ByteCursor in, std::size_t head, ObjectHeader& header) {
  while (in.remaining() >= head) {
    HeaderMessage message;
    message.kind = head == kOldMessageHead ? in.take<std::uint16_t>() : in.take<std::uint8_t>();
    auto size = in.take<std::uint16_t>();
    message.shared = (in.take<std::uint8_t>() & kShared) != 0;
    in.skip(head == kOldMessageHead ? 3 : head - kNewMessageHead);
    if (size > in.remaining())
      fail_object_header("has a message of " + std::to_string(size) + " bytes that goes past its end");
    message.content = in.take_bytes(size);
    header.messages.push_back(message);
  }
}

}  // namespace

const HeaderMessage* ObjectHeader::find(MessageKind kind) const {
  auto at = std::find_if(messages.begin(), messages.end(), [&](const HeaderMessage& m) { return m.kind == kind; });
  return at == messages.end() ? nullptr : &*at;
}

std::uint64_t take_number(ByteCursor& in, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) value |= std::uint64_t{in.take<std::uint8_t>()} << (8 * i);
  return value;
}

core::ByteVector HeaderReader::bytes(std::uint64_t address, std::uint64_t size) const {
  bool inside = address <= file_.size() - base_ && size <= file_.size() - base_ - address;
  core::ByteVector out(inside ? size : 0);
  if (inside && file_.read(H5FD_MEM_OHDR, base_ + address, out.size(), out.data())) return out;
  throw Failure{kFailureCorrupt,
                "it leads to " + std::to_string(size) + " bytes at " + std::to_string(address) + ", outside the file"};
}

ObjectHeader HeaderReader::read(std::uint64_t address) const {
  ObjectHeader header;
  bool is_new = core::as_text(bytes(address, kSignature)) == "OHDR";
  if (is_new) {
    read_new(address, header);
  } else {
    read_old(address, header);
  }
  return header;
}

core::Bytes HeaderReader::keep(const Block& block, ObjectHeader& header) const {
  std::uint64_t total = block.size;
  for (const core::ByteVector& kept : header.blocks) total += kept.size();
  if (total > kMaxHeader || header.blocks.size() >= kMaxBlocks || block.size > kMaxHeader) {
    throw Failure{kFailureRefused, "its object header takes more than 64 MiB"};
  }
  return header.blocks.emplace_back(bytes(block.address, block.size));
}

void HeaderReader::follow(const HeaderMessage& message, std::vector<Block>& blocks) const {
  if (message.kind != kMessageContinuation) return;
  ByteCursor in(message.content);
  std::uint64_t address = take_number(in, widths_.address);
  blocks.push_back({address, take_number(in, widths_.size)});
}

void HeaderReader::read_old(std::uint64_t address, ObjectHeader& header) const {
  core::ByteVector prefix = bytes(address, kOldPrefix);
  if (prefix[0] != std::byte{1}) fail_object_header("is of an unknown version");
  std::vector<Block> blocks = {{address + kOldPrefix, core::load_le<std::uint32_t>(prefix.data() + 8)}};
  std::size_t looked_at = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Block block = blocks[i];
    take_messages(ByteCursor(keep(block, header)), kOldMessageHead, header);
    for (; looked_at < header.messages.size(); ++looked_at) follow(header.messages[looked_at], blocks);
  }
}

void HeaderReader::read_new(std::uint64_t address, ObjectHeader& header) const {
  constexpr std::uint8_t kOrder = 4;
  constexpr std::uint8_t kPhases = 16;
  constexpr std::uint8_t kTimes = 32;
  std::uint64_t room = std::min<std::uint64_t>(kMostPrefix, file_.size() - base_ - address);
  core::ByteVector prefix = bytes(address, room);
  ByteCursor in(prefix, "its object header");
  in.skip(kSignature + 1);
  auto flags = in.take<std::uint8_t>();
  in.skip(((flags & kTimes) != 0 ? 16 : 0) + ((flags & kPhases) != 0 ? 4 : 0));
  std::uint64_t size = take_number(in, std::size_t{1} << (flags & 3));
  std::size_t head = kNewMessageHead + ((flags & kOrder) != 0 ? 2 : 0);
  take_messages(ByteCursor(keep({address + in.position(), size}, header)), head, header);
  std::vector<Block> blocks;
  std::size_t looked_at = 0;
  for (std::size_t i = 0;; ++i) {
    for (; looked_at < header.messages.size(); ++looked_at) follow(header.messages[looked_at], blocks);
    if (i == blocks.size()) return;
    core::Bytes block = keep(blocks[i], header);
    if (block.size() < kSignature + kChecksum)
      fail_object_header("goes on in a block of " + std::to_string(block.size()) + " bytes");
    take_messages(ByteCursor(block.subspan(kSignature, block.size() - kSignature - kChecksum)), head, header);
  }
}

}  // namespace ckpt::detail
