#include "libckpt/format/hdf5_foreign/user_block.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "libckpt/format/content_kind.h"
#include "libckpt/format/hdf5_write/payload.h"
#include "libckpt/io/checksum.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kFirst = 512;
constexpr std::uint64_t kLast = 1ULL << 30;
constexpr std::uint64_t kMostSearched = 16ULL << 20;  ///< bytes of a user block

bool has_signature(const ByteSource& file, std::uint64_t at) {
  core::ByteVector found(kHdf5Signature.size());
  if (at + found.size() > file.size()) return false;
  file.read(at, found);
  return core::as_text(found) == kHdf5Signature;
}

/// Where the last byte that is not zero ends.
std::uint64_t end_of_content(const ByteSource& block) {
  std::uint64_t end = 0;
  std::uint64_t at = 0;
  for_each_part(block, [&](Bytes part) {
    auto last = std::find_if(part.rbegin(), part.rend(), [](std::byte b) { return b != std::byte{0}; });
    if (last != part.rend()) end = at + static_cast<std::uint64_t>(part.rend() - last);
    at += part.size();
  });
  return end;
}

struct Beginning {
  std::string_view bytes;
  const char* what;
};
constexpr auto kDangers = std::to_array<Beginning>({
    {"\x7f"
     "ELF"sv,
     "a program"},
    {"MZ"sv, "a program"},
    {"\xcf\xfa\xed\xfe"sv, "a program"},
    {"\xce\xfa\xed\xfe"sv, "a program"},
    {"\xca\xfe\xba\xbe"sv, "a program"},
    {"#!"sv, "a script"},
    {"<?php"sv, "a script"},
    {"<html"sv, "a web page"},
    {"<!DOCTYPE"sv, "a web page"},
    {"\x1f\x8b"sv, "compressed data"},
    {"\x28\xb5\x2f\xfd"sv, "compressed data"},
    {"\xfd"
     "7zXZ"sv,
     "compressed data"},
    {"BZh"sv, "compressed data"},
    {"7z\xbc\xaf\x27\x1c"sv, "an archive"},
    {"Rar!"sv, "an archive"},
});

std::string danger_by_kind(ContentKind kind) {
  switch (kind) {
    case ContentKind::zip:
      return "a zip archive";
    case ContentKind::tar:
      return "a tar archive";
    case ContentKind::legacy_stream:
    case ContentKind::pickle:
      return "a pickle";
    case ContentKind::npy:
      return "a NumPy array";
    case ContentKind::gguf:
      return "a GGUF file";
    case ContentKind::native:
    case ContentKind::hdf5:
      return "another checkpoint";
    case ContentKind::safetensors:
      return "a safetensors file";
    default:
      return "";
  }
}

/// A zip archive may stand behind anything.
bool holds_zip(const ByteSource& content) {
  core::ByteVector bytes(std::min(content.size(), kMostSearched));
  content.read(0, bytes);
  std::string_view text = core::as_text(bytes);
  return text.find("PK\x03\x04"sv) != text.npos || text.find("PK\x05\x06"sv) != text.npos;
}

std::string danger_in(const ByteSource& content) {
  core::ByteVector head(std::min<std::uint64_t>(content.size(), 16));
  content.read(0, head);
  for (const Beginning& known : kDangers) {
    if (core::as_text(head).starts_with(known.bytes)) return known.what;
  }
  std::string danger = danger_by_kind(content_kind(content));
  return danger.empty() && holds_zip(content) ? "a zip archive" : danger;
}

}  // namespace

std::uint64_t user_block_size(const ByteSource& file) {
  if (has_signature(file, 0)) return 0;
  for (std::uint64_t at = kFirst; at <= kLast && at < file.size(); at *= 2) {
    if (has_signature(file, at)) return at;
  }
  return 0;
}

UserBlock find_user_block(const SourcePtr& file) {
  UserBlock block;
  block.size = user_block_size(*file);
  if (block.size == 0) return block;
  std::uint64_t end = end_of_content(*slice(file, 0, block.size));
  if (end == 0) return block;
  block.content = slice(file, 0, end);
  block.danger = danger_in(*block.content);
  return block;
}

std::string describe(const UserBlock& block) {
  std::string text = core::format_count(block.size) + " bytes of user block before the HDF5 data";
  if (block.danger.empty()) return text + "; they are not part of it";
  return text + " hold " + block.danger + ": other programs may take the file for that";
}

bool has_native_superblock(const SourcePtr& file, const UserBlock& block) {
  constexpr std::size_t kSize = 96;
  constexpr std::size_t kVersion = 8;
  constexpr std::size_t kCache = 72;  ///< what the entry of the root group caches; a library fills it in
  constexpr std::uint64_t kLeast = 4096;
  if (block.size < kLeast || file->size() < block.size + kSize) return false;
  core::ByteVector head(kSize);
  file->read(block.size, head);
  return head[kVersion] == std::byte{0} &&
         std::all_of(head.begin() + kCache, head.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::string zip_at_end(const ByteSource& file) {
  constexpr std::size_t kRecord = 22;
  constexpr std::size_t kLongest = kRecord + UINT16_MAX;
  core::ByteVector bytes(std::min<std::uint64_t>(file.size(), kLongest));
  file.read(file.size() - bytes.size(), bytes);
  std::string_view text = core::as_text(bytes);
  for (std::size_t at = text.rfind("PK\x05\x06"sv); at != text.npos;
       at = at == 0 ? text.npos : text.rfind("PK\x05\x06"sv, at - 1)) {
    if (text.size() - at < kRecord) continue;
    std::size_t comment = core::load_le<std::uint16_t>(bytes.data() + at + kRecord - 2);
    if (comment == text.size() - at - kRecord) {
      return "the directory of a zip archive stands there: programs that read zip archives find other content in this "
             "file than its tensors";
    }
  }
  return "";
}

}  // namespace ckpt::detail
