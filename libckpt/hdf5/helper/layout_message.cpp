#include "libckpt/hdf5/helper/layout_message.h"

#include <algorithm>
#include <vector>

#include "libckpt/io/byte_cursor.h"

namespace ckpt::detail {
namespace {

// HDF5 File Format Specification, IV.A.1.a and IV.A.2.i.
constexpr std::uint16_t kLayoutMessage = 8;
constexpr std::uint16_t kContinuation = 16;
constexpr std::size_t kPrefix = 16;
constexpr std::size_t kMessageHead = 8;
constexpr std::uint64_t kMaxBlock = 64 << 10;
constexpr std::size_t kMaxBlocks = 64;

struct Block {
  haddr_t address = 0;
  std::uint64_t size = 0;
};

hsize_t user_block_of(hid_t dataset) {
  Handle file(H5Iget_file_id(dataset), H5Fclose);
  Handle list(H5Fget_create_plist(file.get()), H5Pclose);
  hsize_t user_block = 0;
  require_hdf5(H5Pget_userblock(list.get(), &user_block), "the user block");
  return user_block;
}

std::optional<std::uint64_t> element_in(ByteCursor message) {
  constexpr std::uint8_t kChunked = 2;
  constexpr std::uint8_t kVersion = 3;
  if (message.take<std::uint8_t>() != kVersion || message.take<std::uint8_t>() != kChunked) return std::nullopt;
  auto sizes = message.take<std::uint8_t>();
  if (sizes == 0) return std::nullopt;
  message.skip(sizeof(haddr_t) + (sizes - 1) * sizeof(std::uint32_t));
  return message.take<std::uint32_t>();
}

}  // namespace

std::optional<std::uint64_t> element_in_layout(hid_t dataset, ReadOnlyFile& file) try {
  H5O_info_t info{};
  require_hdf5(H5Oget_info2(dataset, &info, H5O_INFO_BASIC), "a dataset");
  hsize_t base = user_block_of(dataset);
  core::ByteVector bytes(kPrefix);
  if (!file.read(H5FD_MEM_OHDR, base + info.addr, bytes.size(), bytes.data())) return std::nullopt;
  if (bytes[0] != std::byte{1}) return std::nullopt;
  std::vector<Block> blocks = {{info.addr + kPrefix, core::load_le<std::uint32_t>(bytes.data() + 8)}};
  for (std::size_t i = 0; i < blocks.size() && i < kMaxBlocks; ++i) {
    bytes.resize(std::min(blocks[i].size, kMaxBlock));
    if (!file.read(H5FD_MEM_OHDR, base + blocks[i].address, bytes.size(), bytes.data())) return std::nullopt;
    ByteCursor in(bytes);
    while (in.remaining() >= kMessageHead) {
      auto kind = in.take<std::uint16_t>();
      auto size = in.take<std::uint16_t>();
      in.skip(4);
      ByteCursor message(in.take_bytes(size));
      if (kind == kLayoutMessage) return element_in(message);
      if (kind != kContinuation) continue;
      auto address = message.take<std::uint64_t>();
      blocks.push_back({address, message.take<std::uint64_t>()});
    }
  }
  return std::nullopt;
} catch (const core::Error&) {
  return std::nullopt;  // libhdf5 could read it, so it is of a kind that is not known here
}

}  // namespace ckpt::detail
