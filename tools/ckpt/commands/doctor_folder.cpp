// `ckpt doctor PATH`: what a save does in a folder, found out by saving there.

#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "libckpt/io/folder_trial.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/doctor_checks.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
using State = DoctorLine::State;

struct Kind {
  std::uint64_t magic;
  const char* name;
};

constexpr Kind kKinds[] = {
    {0xef53, "ext4"},        {0x58465342, "xfs"},    {0x9123683e, "btrfs"}, {0x01021994, "tmpfs (in memory)"},
    {0x6969, "NFS"},         {0x0bd00bd0, "Lustre"}, {0xff534d42, "CIFS"},  {0xfe534d42, "SMB"},
    {0x794c7630, "overlay"}, {0x65735546, "FUSE"},   {0x2fc12fc1, "ZFS"},   {0x47504653, "GPFS"},
    {0x01021997, "9p"},      {0x4d44, "FAT"},        {0x2011bab0, "exFAT"}, {0xf2f52010, "F2FS"},
};

std::string kind_of(std::uint64_t magic) {
  for (const Kind& kind : kKinds) {
    if (kind.magic == magic) return kind.name;
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "unknown (0x%llx)", static_cast<unsigned long long>(magic));
  return buffer;
}

DoctorLine line(const std::string& name, bool works, const std::string& value, const std::string& otherwise,
                const std::string& advice) {
  return {"folder", name, works ? value : otherwise, works ? State::good : State::note, works ? "" : advice};
}

/// One line for each thing that a save does in one folder and not in another.
std::vector<DoctorLine> try_saving(const fs::path& folder) {
  ckpt::FolderTrial trial;
  try {
    trial = ckpt::try_folder(folder);
  } catch (const core::Error& error) {
    return {{"folder", "saving", "not possible: " + error.message(), State::note,
             "a save needs a folder where files can be created, for the temporary file"}};
  }
  char time[64];
  std::snprintf(time, sizeof time, "1 MiB in %.1f ms, with fsync", trial.milliseconds);
  return {
      {"folder", "saving", time},
      line("fsync of the folder", trial.syncs_folder, "yes", "not here",
           "the file system makes new names durable by itself, or not at all"),
      line("new names", trial.renames, "taken by a rename", "taken by a hard link",
           "the file system has no rename that refuses a taken name"),
      line("room on the disk", trial.reserves, "reserved before a file is written", "not reserved",
           "the free space is looked at instead; other programs may take it meanwhile"),
      line("copying without a check", trial.copies, "done by the kernel", "done through memory",
           "bytes that have no checksum, such as those of .safetensors files, are copied in pieces"),
      line("writer lock", trial.locks, "yes", "not here",
           "nothing keeps two programs apart that write one file at once"),
  };
}

}  // namespace

fs::path folder_of(const fs::path& path) {
  std::error_code ignored;
  fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path();
  return folder.empty() ? "." : folder;
}

std::vector<DoctorLine> examine_folder(const fs::path& path) {
  std::error_code ignored;
  fs::path folder = folder_of(path);
  struct statfs kind = {};
  struct statvfs space = {};
  if (::statfs(folder.c_str(), &kind) != 0 || ::statvfs(folder.c_str(), &space) != 0) {
    return {{"folder", "path", core::printable(folder.string()) + ": " + std::strerror(errno), State::missing, ""}};
  }
  auto magic = static_cast<std::uint64_t>(static_cast<std::uint32_t>(kind.f_type));
  std::uint64_t block = space.f_frsize;
  bool network = magic == 0x6969 || magic == 0x0bd00bd0 || magic == 0xff534d42 || magic == 0xfe534d42;
  bool memory = magic == 0x01021994;
  std::vector<DoctorLine> lines = {
      {"folder", "path", core::printable(fs::absolute(folder, ignored).lexically_normal().string())},
      {"folder", "file system", kind_of(magic), network || memory ? State::note : State::good,
       network  ? "durability is what the server promises"
       : memory ? "its files are gone when the machine stops"
                : ""},
      {"folder", "free space",
       core::format_size(space.f_bavail * block) + " of " + core::format_size(space.f_blocks * block)}};
  for (DoctorLine& tried : try_saving(folder)) lines.push_back(std::move(tried));
  return lines;
}

}  // namespace cli
