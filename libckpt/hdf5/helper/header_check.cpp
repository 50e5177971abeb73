#include "libckpt/hdf5/helper/header_check.h"

#include <algorithm>
#include <string>

#include "libcore/base/checked_math.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMaxSlack = 16;  ///< bytes that writers leave behind the content of a message
constexpr std::uint64_t kNoAddress = UINT64_MAX;

[[noreturn]] void fail_header(const std::string& what) {
  throw Failure{kFailureCorrupt, what};
}

std::string bytes_text(std::optional<std::uint64_t> bytes) {
  return bytes ? std::to_string(*bytes) : "more than 64 bits can count";
}

std::optional<std::uint64_t> product(std::optional<std::uint64_t> a, std::uint64_t b) {
  return a ? core::try_mul<std::uint64_t>(*a, b) : a;
}

/// All bits set, in the width of the file.
bool is_undefined(std::uint64_t address, std::size_t width) {
  return address == (width >= 8 ? kNoAddress : (std::uint64_t{1} << (8 * width)) - 1);
}

std::uint64_t padded(std::uint64_t length, std::uint8_t version) {
  return version == 1 ? (length + 7) / 8 * 8 : length;
}

}  // namespace

void HeaderCheck::require_good(std::uint64_t address) try {
  ObjectHeader header = reader_.read(address);
  // A type that was given a name, or that of a dataset.
  if (const HeaderMessage* type = header.find(kMessageType)) take_type(type->content, type->shared);
  check_layout(header);
  for (const HeaderMessage& message : header.messages) {
    if (message.kind != kMessageAttribute || message.shared) continue;
    check_attribute(message.content);
    ++attributes_;
  }
} catch (const core::Error& error) {
  fail_header("its object header contradicts itself: " + std::string(error.message()));
}

std::optional<TypeClaim> HeaderCheck::take_type(core::Bytes content, bool shared) {
  if (shared) return committed_type(content);
  ByteCursor in(content, "its type");
  return check_type_message(in, reader_.widths());
}

/// The message says in which other object header the type stands.
std::optional<TypeClaim> HeaderCheck::committed_type(core::Bytes content) {
  constexpr std::uint8_t kInTable = 1;
  ByteCursor in(content, "its type");
  auto version = in.take<std::uint8_t>();
  auto place = in.take<std::uint8_t>();
  if (version >= 3 && place == kInTable) return std::nullopt;
  if (version == 1) in.skip(6);
  std::uint64_t address = take_number(in, reader_.widths().address);
  auto known = committed_.find(address);
  if (known != committed_.end()) return known->second;
  ObjectHeader header = reader_.read(address);
  const HeaderMessage* type = header.find(kMessageType);
  if (type == nullptr || type->shared) fail_header("its type is said to stand where there is none");
  ByteCursor message(type->content, "its type");
  return committed_[address] = check_type_message(message, reader_.widths());
}

HeaderCheck::Space HeaderCheck::take_space(ByteCursor& in) const {
  constexpr std::uint8_t kNull = 2;
  constexpr std::uint8_t kHasMost = 1;
  auto version = in.take<std::uint8_t>();
  Space space;
  std::size_t rank = in.take<std::uint8_t>();
  auto flags = in.take<std::uint8_t>();
  auto kind = in.take<std::uint8_t>();
  if (version == 1) in.skip(4);
  if (version > 1 && kind == kNull) return {false, {}, 0};
  if (rank > kMaxRank) fail_header("its shape has " + std::to_string(rank) + " dimensions");
  for (std::size_t d = 0; d < rank; ++d) space.sides.push_back(take_number(in, reader_.widths().size));
  bool empty = std::find(space.sides.begin(), space.sides.end(), 0U) != space.sides.end();
  for (std::uint64_t side : space.sides) space.count = product(space.count, side);
  if (empty) space.count = 0;
  for (std::uint64_t side : space.sides) {
    if ((flags & kHasMost) != 0 && take_number(in, reader_.widths().size) < side) {
      fail_header("its shape has a side of " + std::to_string(side) + ", more than it says that it may have");
    }
  }
  return space;
}

void HeaderCheck::check_layout(const ObjectHeader& header) {
  enum Kind : std::uint8_t { kCompact = 0, kContiguous = 1, kChunked = 2 };
  const HeaderMessage* layout = header.find(kMessageLayout);
  const HeaderMessage* type = header.find(kMessageType);
  const HeaderMessage* shape = header.find(kMessageSpace);
  if (layout == nullptr || type == nullptr || shape == nullptr || layout->shared || shape->shared) return;
  std::optional<TypeClaim> claim = take_type(type->content, type->shared);
  if (!claim) return;
  all_seen_ = all_seen_ && !claim->points_elsewhere;
  ByteCursor shape_in(shape->content, "its shape");
  Space space = take_space(shape_in);
  ByteCursor in(layout->content, "its layout");
  auto version = in.take<std::uint8_t>();
  auto kind = in.take<std::uint8_t>();
  if (version < 3) {  // how many sizes, then the kind; only chunks say more than the shape does
    std::uint8_t sizes = kind;
    if (in.take<std::uint8_t>() != kChunked) return;
    in.skip(5 + reader_.widths().address);
    for (unsigned d = 0; d + 1 < sizes; ++d) in.skip(4);
    if (in.take<std::uint32_t>() != claim->width) fail_header("its chunks have elements of another size than its type");
    return;
  }
  constexpr std::uint8_t kNewest = 4;
  if (version > kNewest) return;  // libhdf5 will say that it is newer than itself
  if (kind == kChunked) return check_chunks(in, version, space, claim->width);
  if (kind != kCompact && kind != kContiguous) return;
  bool nowhere =
      kind == kContiguous && is_undefined(take_number(in, reader_.widths().address), reader_.widths().address);
  std::uint64_t stored = kind == kCompact ? in.take<std::uint16_t>() : take_number(in, reader_.widths().size);
  std::optional<std::uint64_t> needed = product(space.count, claim->width);
  if (nowhere || stored == needed) return;
  fail_header("it holds " + std::to_string(stored) + " bytes where its shape and elements of " +
              std::to_string(claim->width) + " bytes need " + bytes_text(needed));
}

void HeaderCheck::check_chunks(ByteCursor& in, std::uint8_t version, const Space& space, std::uint64_t width) const {
  if (version > 3) in.skip(1);
  auto sizes = in.take<std::uint8_t>();
  std::size_t bytes = 4;
  if (version > 3) {
    bytes = in.take<std::uint8_t>();
  } else {
    in.skip(reader_.widths().address);
  }
  std::size_t rank = space.sides.size();
  if (sizes != rank + 1 || bytes == 0 || bytes > 8) {
    fail_header("its chunks have " + std::to_string(int{sizes} - 1) + " dimensions and its shape has " +
                std::to_string(rank));
  }
  std::optional<std::uint64_t> chunk = 1;
  bool holds_all = true;
  for (std::size_t d = 0; d < rank; ++d) {
    std::uint64_t side = take_number(in, bytes);
    holds_all = holds_all && space.sides[d] <= side;
    if (side == 0) fail_header("its chunks have a side of length zero");
    chunk = product(chunk, side);
  }
  std::uint64_t element = take_number(in, bytes);
  if (element != width) {
    fail_header("its chunks have elements of " + std::to_string(element) + " bytes and its type has " +
                std::to_string(width));
  }
  constexpr std::uint8_t kSingle = 1;
  if (version > 3 && in.take<std::uint8_t>() == kSingle && !holds_all) {
    fail_header("it is said to lie in a single chunk, which is smaller than its shape");
  }
  chunk = product(chunk, width);
  if (!chunk || *chunk > UINT32_MAX) {
    fail_header("its chunks take " + (chunk ? core::format_size(*chunk) : "more bytes than 64 bits can count") +
                " each, where HDF5 allows 4 GiB");
  }
}

/// Names, types, shapes and values stand one behind the other.
void HeaderCheck::check_attribute(core::Bytes content) {
  constexpr std::uint8_t kSharedType = 1;
  constexpr std::uint8_t kSharedSpace = 2;
  ByteCursor in(content, "an attribute");
  auto version = in.take<std::uint8_t>();
  auto flags = in.take<std::uint8_t>();
  if (version == 1) flags = 0;
  auto name_size = in.take<std::uint16_t>();
  auto type_size = in.take<std::uint16_t>();
  auto space_size = in.take<std::uint16_t>();
  if (version > 2) in.skip(1);
  std::string_view name = in.take_text(padded(name_size, version)).substr(0, name_size);
  name = name.substr(0, name.find('\0'));
  try {
    std::optional<TypeClaim> type = take_type(in.take_bytes(padded(type_size, version)), (flags & kSharedType) != 0);
    ByteCursor space_in(in.take_bytes(padded(space_size, version)), "its shape");
    if (type && (flags & kSharedSpace) == 0) check_values(in, *type, take_space(space_in));
  } catch (const Failure& failure) {
    fail_header("the attribute " + core::quote(name) + ": " + failure.text);
  } catch (const core::Error& error) {
    fail_header("the attribute " + core::quote(name) + ": " + std::string(error.message()));
  }
}

void HeaderCheck::check_values(ByteCursor& in, const TypeClaim& type, const Space& space) {
  std::optional<std::uint64_t> needed = product(space.count, type.width);
  all_seen_ = all_seen_ && (type.any_length_text || !type.points_elsewhere);
  if (needed && *needed <= in.remaining() && in.remaining() - *needed < kMaxSlack) {
    for (std::uint64_t i = 0; type.any_length_text && i < *space.count; ++i) {
      auto length = in.take<std::uint32_t>();
      std::uint64_t address = take_number(in, reader_.widths().address);
      heap_.require(address, in.take<std::uint32_t>(), length);
    }
    return;
  }
  fail_header("it holds " + std::to_string(in.remaining()) + " bytes where its shape and elements of " +
              std::to_string(type.width) + " bytes need " + bytes_text(needed));
}

}  // namespace ckpt::detail
