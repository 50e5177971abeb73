// `ckpt doctor PATH`: what the file system of a folder can do for saving and editing.

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "libcore/base/text.h"
#include "tools/ckpt/doctor.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
using State = DoctorLine::State;

constexpr std::uint64_t kBlock = 1 << 20;

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

/// A file without a name, or with one that is gone at once; -1 and errno.
int scratch_file(const fs::path& folder) {
  int fd = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  std::string name = (folder / ".ckpt-doctor-XXXXXX").string();
  fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd >= 0) ::unlink(name.c_str());
  return fd;
}

DoctorLine try_fsync(int fd) {
  std::string block(kBlock, 'x');
  auto start = std::chrono::steady_clock::now();
  bool written = ::pwrite(fd, block.data(), block.size(), 0) == static_cast<ssize_t>(block.size());
  bool synced = written && ::fsync(fd) == 0;
  if (!synced) return {"folder", "write and fsync", std::strerror(errno), State::missing, "nothing can be saved here"};
  std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "1 MiB in %.1f ms", spent.count());
  return {"folder", "write and fsync", buffer};
}

DoctorLine try_insert(int fd) {
  bool works = ::fallocate(fd, FALLOC_FL_INSERT_RANGE, 0, kBlock) == 0;
  return {"folder", "block insertion", works ? "yes" : "no", works ? State::good : State::note,
          works ? "headers that outgrow their place are edited without copying the file"
                : "an edit whose header outgrows its place copies the file"};
}

DoctorLine try_reflink(const fs::path& folder, int fd) {
  int copy = scratch_file(folder);
  bool works = copy >= 0 && ::ioctl(copy, FICLONE, fd) == 0;
  if (copy >= 0) ::close(copy);
  return {"folder", "reflink", works ? "yes" : "no", works ? State::good : State::note,
          works ? "copies share their blocks" : "a copy of a file is written out in full"};
}

std::vector<DoctorLine> try_writing(const fs::path& folder) {
  int fd = scratch_file(folder);
  if (fd < 0) {
    return {{"folder", "writing", std::string("not possible: ") + std::strerror(errno), State::note,
             "saving needs a folder where files can be created, for the temporary file"}};
  }
  std::vector<DoctorLine> lines = {try_fsync(fd), try_insert(fd), try_reflink(folder, fd)};
  ::close(fd);
  return lines;
}

}  // namespace

std::vector<DoctorLine> examine_folder(const fs::path& path) {
  std::error_code ignored;
  fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path();
  if (folder.empty()) folder = ".";
  struct statfs kind = {};
  struct statvfs space = {};
  if (::statfs(folder.c_str(), &kind) != 0 || ::statvfs(folder.c_str(), &space) != 0) {
    return {{"folder", "path", core::printable(folder.string()) + ": " + std::strerror(errno), State::missing, ""}};
  }
  auto magic = static_cast<std::uint64_t>(static_cast<std::uint32_t>(kind.f_type));
  std::uint64_t block = space.f_frsize;
  bool network = magic == 0x6969 || magic == 0x0bd00bd0 || magic == 0xff534d42 || magic == 0xfe534d42;
  std::vector<DoctorLine> lines = {
      {"folder", "path", core::printable(fs::absolute(folder, ignored).lexically_normal().string())},
      {"folder", "file system", kind_of(magic), network ? State::note : State::good,
       network ? "durability is what the server promises" : ""},
      {"folder", "free space",
       core::format_size(space.f_bavail * block) + " of " + core::format_size(space.f_blocks * block)}};
  for (DoctorLine& line : try_writing(folder)) lines.push_back(std::move(line));
  return lines;
}

}  // namespace cli
