#include "libckpt/analyze/why/packed_file.h"

#include <algorithm>
#include <array>
#include <vector>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/io/tar.h"
#include "libckpt/io/zip.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

using namespace std::string_view_literals;

struct Packer {
  std::string_view magic;
  std::string_view program;
  std::array<std::string_view, 2> extensions;  ///< that the program takes off
  std::string_view tar_extension;              ///< one extension for a packed tar archive
};
constexpr auto kPackers = std::to_array<Packer>({
    {"\x1f\x8b"sv, "gunzip", {".gz", ".z"}, ".tgz"},
    {"BZh"sv, "bunzip2", {".bz2", ".bz"}, ".tbz2"},
    {"\xfd"
     "7zXZ"sv,
     "unxz",
     {".xz", ".lzma"},
     ".txz"},
    {"\x28\xb5\x2f\xfd"sv, "unzstd", {".zst", ".zstd"}, ".tzst"},
});

/// A name that no tool takes for an option, nor tar for a file on another machine.
std::string as_file(const std::string& name) {
  bool remote = name.find('/') == std::string::npos && name.find(':') != std::string::npos;
  return shell_file(remote ? "./" + name : name);
}

std::string look_at(const std::string& name) {
  return " && ckpt why " + as_file(name);
}

std::string stem_of(const std::string& path, std::string_view extension) {
  return path.substr(0, path.size() - extension.size());
}

/// "gunzip -k net.pth.gz && ckpt why net.pth". Without the packer's own extension its output goes to a new file.
std::string unpack_stream(const std::string& path, const Packer& packer) {
  std::string program(packer.program);
  for (std::string_view extension : packer.extensions) {
    std::string stem = path.ends_with(extension) ? stem_of(path, extension) : "";
    if (stem.empty() || stem.ends_with('/')) continue;
    if (stem.ends_with(".tar")) return "tar -xf " + as_file(path) + " && ls";
    return program + " -k " + as_file(path) + look_at(stem);
  }
  if (path.ends_with(packer.tar_extension)) return "tar -xf " + as_file(path) + " && ls";
  std::string unpacked = path + ".unpacked";
  std::string target = unpacked.starts_with('-') ? "./" + unpacked : unpacked;
  return program + " -c < " + shell_word(path) + " > " + shell_word(target) + look_at(target);
}

/// The member that is most likely the checkpoint: the largest.
struct Member {
  std::string name;
  std::uint64_t size = 0;
};

const Member* largest(const std::vector<Member>& members) {
  auto found = std::max_element(members.begin(), members.end(),
                                [](const Member& a, const Member& b) { return a.size < b.size; });
  return found == members.end() ? nullptr : &*found;
}

/// A name that stays below the folder it is unpacked in, and that can be typed.
bool is_harmless(const std::string& name) {
  bool leads_out = name.starts_with('/') || name.starts_with("../") || name.find("/../") != std::string::npos;
  return !name.empty() && !leads_out && name.find_first_of("*?[]\\") == std::string::npos &&
         ShellCommand("ckpt").word(name).is_exact();
}

std::optional<std::string> unpack_tar(const std::string& path, const SourcePtr& file) {
  std::vector<Member> members;
  const TarArchive tar = TarArchive::open(file, {});
  for (const TarMember& member : tar.members()) {
    if (member.regular) members.push_back({member.name, member.size});
  }
  const Member* best = largest(members);
  if (best == nullptr || !is_harmless(best->name)) return std::nullopt;
  // Behind "--" tar takes names as they are; ./-x is another name to it than -x.
  return "tar -xf " + as_file(path) + " -- " + shell_word(best->name) + look_at(best->name);
}

std::optional<std::string> unpack_zip(const std::string& path, const SourcePtr& file) {
  std::vector<Member> members;
  const ZipArchive zip = ZipArchive::open(file, {});
  for (const ZipMember& member : zip.members()) {
    if (!member.name.ends_with('/')) members.push_back({member.name, member.size});
  }
  const Member* best = largest(members);
  if (best == nullptr || !is_harmless(best->name) || best->name.starts_with('-')) return std::nullopt;
  // -o would write over a file of the same name, which may be the archive itself.
  if (best->name == std::filesystem::path(path).filename().string()) {
    std::string target = path + ".unpacked";
    if (target.starts_with('-')) target.insert(0, "./");
    return "unzip -p " + as_file(path) + " " + shell_word(best->name) + " > " + shell_word(target) + look_at(target);
  }
  return "unzip -n " + as_file(path) + " " + shell_word(best->name) + look_at(best->name);
}

}  // namespace

std::optional<std::string> unpack_command(const std::filesystem::path& path, const SourcePtr& file,
                                          std::string_view head) {
  std::string name = path.string();
  if (name.find('\0') != std::string::npos || name.starts_with("/proc/self/fd/")) return std::nullopt;
  for (const Packer& packer : kPackers) {
    if (head.starts_with(packer.magic)) return unpack_stream(name, packer);
  }
  try {
    if (head.size() > 262 && head.substr(257, 5) == "ustar") return unpack_tar(name, file);
    if (head.starts_with("PK\x03\x04")) return unpack_zip(name, file);
  } catch (const core::Error&) {
    return std::nullopt;  // a damaged archive: the reader has said so
  }
  return std::nullopt;
}

}  // namespace ckpt::detail
