#include "libckpt/format/native/parity_layout.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/erasure_code.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kMagic{"\x89\x43\x4b\x50\x41\x52\x0d\x0a", 8};
constexpr std::uint16_t kMajor = 1;
constexpr std::uint16_t kMinor = 0;
constexpr std::size_t kHashedParityBytes = kParityHeaderBytes - 16;
constexpr std::uint64_t kWantedBlocks = 4096;
constexpr std::uint64_t kAlignment = 4096;

/// Small blocks lose little to one flipped bit, large ones need small tables.
std::uint32_t block_for(std::uint64_t end) {
  std::uint64_t wanted = std::bit_floor(std::max<std::uint64_t>(end / kWantedBlocks, 1));
  return static_cast<std::uint32_t>(std::clamp(wanted, kMinParityBlock, kMaxParityBlock));
}

std::uint64_t divide_up(std::uint64_t value, std::uint64_t by) {
  return (value + by - 1) / by;
}

}  // namespace

ParityLayout plan_parity(std::uint64_t end, double share) {
  if (!(share > 0 && share <= 1)) {
    throw core::Error(core::ErrorCode::usage, "the share of parity data has to be above 0 and at most 1");
  }
  ParityLayout layout;
  layout.share = share;
  layout.block = block_for(end);
  layout.covered = core::align_up(end, std::max<std::uint64_t>(layout.block, kAlignment));
  std::uint64_t data = layout.data_blocks();
  // A run that begins inside a block touches one more.
  auto burst = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(data))) + 1;
  layout.groups = std::max<std::uint64_t>(1, (data + burst) / ErasureCode::kMaxRows);
  while (divide_up(data, layout.groups) + divide_up(burst, layout.groups) > ErasureCode::kMaxRows) ++layout.groups;
  layout.parity = static_cast<std::uint32_t>(divide_up(burst, layout.groups));
  return layout;
}

bool is_possible(const ParityLayout& layout) {
  bool sizes = std::has_single_bit(layout.block) && layout.block >= kMinParityBlock &&
               layout.block <= kMaxParityBlock && layout.covered > 0 && layout.covered < (1ULL << 60) &&
               layout.covered % layout.block == 0;
  if (!sizes || layout.groups == 0 || layout.groups > layout.data_blocks()) return false;
  bool rows = layout.parity > 0 && layout.parity < ErasureCode::kMaxRows &&
              layout.data_rows() + layout.parity <= ErasureCode::kMaxRows;
  // What an honest writer makes; tables are allocated by these numbers.
  if (rows && layout.parity_blocks() > 2 * layout.data_blocks() + 2) return false;
  return rows && layout.share > 0 && layout.share <= 1;
}

core::ByteVector encode_parity_header(const ParityHeader& header) {
  core::ByteVector out;
  core::append(out, core::as_bytes(kMagic));
  core::append_le<std::uint16_t>(out, kMajor);
  core::append_le<std::uint16_t>(out, kMinor);
  core::append_le<std::uint32_t>(out, static_cast<std::uint32_t>(kParityHeaderBytes));
  core::append_le<std::uint64_t>(out, header.layout.covered);
  core::append_le<std::uint64_t>(out, header.layout.groups);
  core::append_le<std::uint32_t>(out, header.layout.block);
  core::append_le<std::uint32_t>(out, header.layout.parity);
  core::append_le<std::uint64_t>(out, std::bit_cast<std::uint64_t>(header.layout.share));
  core::append_le<std::uint64_t>(out, header.index_hash.low);
  core::append_le<std::uint64_t>(out, header.index_hash.high);
  out.resize(kHashedParityBytes);
  Hash128 hash = hash128(out);
  core::append_le<std::uint64_t>(out, hash.low);
  core::append_le<std::uint64_t>(out, hash.high);
  return out;
}

std::optional<ParityHeader> try_parse_parity_header(core::Bytes bytes) {
  ByteCursor in(bytes, "the header of the parity data");
  if (in.take_text(kMagic.size()) != kMagic || in.take<std::uint16_t>() != kMajor) return std::nullopt;
  in.skip(6);
  ParityHeader header;
  header.layout.covered = in.take<std::uint64_t>();
  header.layout.groups = in.take<std::uint64_t>();
  header.layout.block = in.take<std::uint32_t>();
  header.layout.parity = in.take<std::uint32_t>();
  header.layout.share = std::bit_cast<double>(in.take<std::uint64_t>());
  header.index_hash.low = in.take<std::uint64_t>();
  header.index_hash.high = in.take<std::uint64_t>();
  in.seek(kHashedParityBytes);
  Hash128 hash;
  hash.low = in.take<std::uint64_t>();
  hash.high = in.take<std::uint64_t>();
  if (hash != hash128(bytes.first(kHashedParityBytes)) || !is_possible(header.layout)) return std::nullopt;
  return header;
}

}  // namespace ckpt::detail
