#include "libckpt/format/native/damaged_head.h"

#include <algorithm>
#include <bit>

#include "libckpt/format/native/layout.h"
#include "libckpt/io/remote_name.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

bool has_signature(const ByteSource& file, std::uint64_t at) {
  if (at > file.size() || file.size() - at < kHdf5Signature.size()) return false;
  core::ByteVector found(kHdf5Signature.size());
  file.read(at, found);
  return core::as_text(found) == kHdf5Signature;
}

/// The sizes of the header are possible and the index that they tell has the hash that stands beside them.
bool index_fits(const Input& input) {
  const std::byte* head = input.head.data();
  auto user_block = core::load_le<std::uint64_t>(head + 16);
  auto index_size = core::load_le<std::uint64_t>(head + 32);
  bool possible = std::has_single_bit(user_block) && user_block >= kMinUserBlock && user_block <= kMaxUserBlock &&
                  index_size <= user_block - kHeaderBytes;
  if (!possible || !has_signature(*input.file, user_block)) return false;
  Hash128 hash = {core::load_le<std::uint64_t>(head + 48), core::load_le<std::uint64_t>(head + 56)};
  return hash128(*slice(input.file, kHeaderBytes, index_size)) == hash;
}

/// An index of ours stands where one would, whatever became of the header.
bool holds_index(const Input& input) {
  if (input.head.size() < kHeaderBytes + kSectionHead) return false;
  bool begins = core::load_le<std::uint16_t>(input.head.data() + kHeaderBytes) == 1;  // cheap for all other files
  if (!begins) return false;
  std::optional<std::uint64_t> user_block = find_hdf5_part(*input.file);
  return user_block && measure_index(*input.file, *user_block);
}

bool ends_with_parity(const ByteSource& file) {
  if (file.size() < kParityHeaderBytes) return false;
  core::ByteVector tail(kParityHeaderBytes);
  file.read(file.size() - tail.size(), tail);
  std::optional<ParityHeader> header = try_parse_parity_header(tail);
  return header && header->layout.end() == file.size();
}

HeadDamage look(const Input& input) {
  if (input.head.size() < kHeaderBytes || core::as_text(input.head).starts_with(kNativeMagic)) return HeadDamage::none;
  core::ByteVector header(input.head.begin(), input.head.begin() + kHeaderBytes);
  std::copy_n(core::as_bytes(kNativeMagic).begin(), kNativeMagic.size(), header.begin());
  if (header_hash_fits(header)) return HeadDamage::magic;
  if (index_fits(input) || holds_index(input)) return HeadDamage::header;
  return ends_with_parity(*input.file) ? HeadDamage::parity : HeadDamage::none;
}

}  // namespace

HeadDamage find_head_damage(const Input& input) {
  // On another machine nothing is mended, and the end of a file is a request of its own.
  if (input.file && is_far(*input.file)) return HeadDamage::none;
  try {
    return input.file ? look(input) : HeadDamage::none;
  } catch (const core::Error&) {
    return HeadDamage::none;  // whoever reads on will say what is wrong with the file
  }
}

std::string describe(HeadDamage damage) {
  if (damage == HeadDamage::magic) {
    return "the first 8 bytes are damaged; it is a native checkpoint, and the rest of its header fits";
  }
  if (damage == HeadDamage::header) {
    return "the header is damaged; it is a native checkpoint, and its index follows the header";
  }
  return "the head of the file is damaged; it is a native checkpoint with parity data at its end";
}

std::optional<std::uint64_t> find_hdf5_part(const ByteSource& file) {
  for (std::uint64_t at = kMinUserBlock; at <= kMaxUserBlock && at < file.size(); at *= 2) {
    if (has_signature(file, at)) return at;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> measure_index(const ByteSource& file, std::uint64_t user_block) {
  constexpr std::uint16_t kRequired = 1;
  std::uint64_t at = kHeaderBytes;
  core::ByteVector head(kSectionHead);
  for (std::uint16_t id = 1;; ++id) {
    bool room = at + kSectionHead <= user_block;
    if (room) file.read(at, head);
    bool is_next = room && core::load_le<std::uint16_t>(head.data()) == id;
    if (!is_next && id > kRequiredSections) return at - kHeaderBytes;
    if (!is_next || (id <= kRequiredSections && core::load_le<std::uint16_t>(head.data() + 2) != kRequired)) {
      return std::nullopt;
    }
    auto size = core::load_le<std::uint64_t>(head.data() + 8);
    if (size > user_block - at - kSectionHead) return std::nullopt;
    at += kSectionHead + size;
  }
}

}  // namespace ckpt::detail
