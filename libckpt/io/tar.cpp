#include "libckpt/io/tar.h"

#include <algorithm>
#include <array>
#include <optional>

#include "libckpt/limits.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kTarBlock = 512;

using Block = std::array<std::byte, kTarBlock>;

[[noreturn]] void throw_corrupt_tar(const std::string& what) {
  throw Error(ErrorCode::corrupt, what);
}

std::string_view field(const Block& block, std::size_t offset, std::size_t size) {
  std::string_view text = core::as_text(block).substr(offset, size);
  return text.substr(0, text.find('\0'));
}

/// Octal digits, or a binary number when the first bit is set.
std::uint64_t number_field(const Block& block, std::size_t offset, std::size_t size) {
  std::uint64_t value = 0;
  if ((block[offset] & std::byte{0x80}) != std::byte{}) {
    for (std::size_t i = size - 8; i < size; ++i)
      value = value << 8 | std::to_integer<std::uint64_t>(block[offset + i]);
    if (value > INT64_MAX) throw_corrupt_tar("a tar header has a size that no file can have");
    return value;
  }
  for (char c : field(block, offset, size)) {
    if (c == ' ') continue;
    if (c < '0' || c > '7') throw_corrupt_tar("a tar header holds a number that cannot be read");
    value = value << 3 | static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

bool is_zero(core::Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{}; });
}

void check_sum(const Block& block, std::uint64_t at) {
  constexpr std::size_t kSumOffset = 148;
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    bool inside = i >= kSumOffset && i < kSumOffset + 8;
    sum += inside ? ' ' : std::to_integer<std::uint64_t>(block[i]);
  }
  if (sum == number_field(block, kSumOffset, 8)) return;
  throw_corrupt_tar("the tar header at byte " + std::to_string(at) + " does not have its checksum");
}

/// What extended headers say of the next member.
struct Extra {
  std::optional<std::string> name;
  std::optional<std::uint64_t> size;
};

/// Records "length key=value\n".
void parse_pax(std::string_view text, Extra& extra) {
  while (!text.empty()) {
    std::size_t blank = text.find(' ');
    std::uint64_t length = 0;
    for (char c : text.substr(0, std::min<std::size_t>(blank, 8))) {
      if (c < '0' || c > '9') throw_corrupt_tar("a tar archive has a broken extended header");
      length = length * 10 + static_cast<std::uint64_t>(c - '0');
    }
    if (blank == std::string_view::npos || length <= blank + 1 || length > text.size()) {
      throw_corrupt_tar("a tar archive has a broken extended header");
    }
    std::string_view record = text.substr(blank + 1, length - blank - 2);
    std::size_t equals = record.find('=');
    std::string_view key = record.substr(0, equals);
    std::string_view value = equals == std::string_view::npos ? std::string_view() : record.substr(equals + 1);
    if (key == "path") extra.name = std::string(value);
    if (key == "size") {
      extra.size = 0;
      for (char c : value.substr(0, 18)) {
        if (c < '0' || c > '9') throw_corrupt_tar("a tar archive has a broken extended header");
        extra.size = *extra.size * 10 + static_cast<std::uint64_t>(c - '0');
      }
    }
    text.remove_prefix(length);
  }
}

class TarReader {
 public:
  TarReader(const ByteSource& file, const Limits& limits) : file_(file), limits_(limits) {}

  std::vector<TarMember> run() {
    while (read_member()) {
    }
    check_end();
    return std::move(members_);
  }

 private:
  Block block_at(std::uint64_t at) {
    Block block;
    if (file_.size() - at < kTarBlock) throw_corrupt_tar("the file is cut off: the tar archive ends inside a header");
    file_.read(at, block);
    return block;
  }

  /// False at the end mark.
  bool read_member() {
    if (position_ == file_.size()) throw_corrupt_tar("the file is cut off: the end of the tar archive is missing");
    Block block = block_at(position_);
    if (is_zero(block)) return false;
    check_sum(block, position_);
    if (field(block, 257, 5) != "ustar") throw_corrupt_tar("the tar archive has a header of an unknown kind");
    std::uint64_t size = extra_.size.value_or(number_field(block, 124, 12));
    std::uint64_t content = position_ + kTarBlock;
    if (size > file_.size() - content) {
      throw_corrupt_tar("the file is cut off: a member of the tar archive has " +
                        core::format_size(file_.size() - content) + " of " + core::format_size(size));
    }
    take(block, content, size);
    position_ = core::checked_add(content, (size + kTarBlock - 1) / kTarBlock * kTarBlock);
    if (position_ > file_.size()) throw_corrupt_tar("the file is cut off: the padding of a tar member is missing");
    core::ByteVector padding(position_ - content - size);
    file_.read(content + size, padding);
    if (!is_zero(padding)) throw_corrupt_tar("the padding of a tar member is not zero");
    return true;
  }

  void take(const Block& block, std::uint64_t content, std::uint64_t size) {
    auto type = std::to_integer<char>(block[156]);
    bool extended = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    if (extended) return take_extra(type, content, size);
    std::string_view prefix = field(block, 345, 155);
    std::string name(field(block, 0, 100));
    if (!prefix.empty()) name = std::string(prefix) + "/" + name;
    if (members_.size() >= limits_.max_zip_members) {
      throw Error(ErrorCode::refused, "the tar archive has more members than allowed");
    }
    members_.push_back({extra_.name.value_or(name), content, size, type == '0' || type == '\0' || type == '7'});
    extra_ = {};
  }

  void take_extra(char type, std::uint64_t content, std::uint64_t size) {
    if (size > kMaxTarRecord) throw Error(ErrorCode::refused, "the tar archive has a header of more than 1 MiB");
    core::ByteVector bytes(size);
    file_.read(content, bytes);
    std::string_view text = core::as_text(bytes);
    if (type == 'x') parse_pax(text, extra_);
    if (type == 'L') extra_.name = std::string(text.substr(0, text.find('\0')));
  }

  /// Behind the end mark a tar has only zeros.
  void check_end() const {
    core::ByteVector buffer;
    for (std::uint64_t at = position_; at < file_.size(); at += buffer.size()) {
      buffer.resize(std::min<std::uint64_t>(64 << 10, file_.size() - at));
      file_.read(at, buffer);
      if (!is_zero(buffer)) throw_corrupt_tar("the tar archive has bytes after its end");
    }
    if (file_.size() - position_ < 2 * kTarBlock)
      throw_corrupt_tar("the file is cut off: the end of the tar archive is missing");
  }

  const ByteSource& file_;
  const Limits& limits_;
  std::uint64_t position_ = 0;
  Extra extra_;
  std::vector<TarMember> members_;
};

}  // namespace

TarArchive TarArchive::open(SourcePtr file, const Limits& limits) {
  TarArchive archive;
  archive.members_ = TarReader(*file, limits).run();
  archive.file_ = std::move(file);
  return archive;
}

const TarMember* TarArchive::find(std::string_view name) const {
  const TarMember* found = nullptr;
  for (const TarMember& member : members_) {
    std::string_view own = member.name;
    if (own.starts_with("./")) own.remove_prefix(2);
    if (own != name || !member.regular) continue;
    if (found != nullptr) throw_corrupt_tar("the tar archive has " + core::quote(name) + " twice");
    found = &member;
  }
  return found;
}

}  // namespace ckpt
