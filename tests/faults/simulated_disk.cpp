#include "tests/faults/simulated_disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <stdexcept>

#include "libckpt/io/file_ops.h"
#include "tests/faults/power_cut_states.h"
#include "tests/support/temp_dir.h"

namespace test::faults {
namespace {

namespace fs = std::filesystem;
using ckpt::detail::system_file_ops;
using Kind = DiskOp::Kind;

ino_t inode_of(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
}

ino_t inode_of(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

}  // namespace

Folder read_folder(const fs::path& path) {
  Folder folder;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    const std::string name = fs::relative(entry.path(), path).string();
    if (entry.is_directory()) {
      if (fs::is_empty(entry.path())) folder[name + "/"] = std::make_shared<const std::string>();
      continue;
    }
    if (!entry.is_regular_file()) throw std::runtime_error("not a file: " + entry.path().string());
    folder[name] = std::make_shared<const std::string>(read_file(entry.path()));
  }
  return folder;
}

void write_folder(const fs::path& path, const Folder& folder) {
  if (const char* state = std::getenv("XDG_STATE_HOME")) fs::remove_all(fs::path(state) / "ckpt");
  fs::create_directories(path);
  for (const auto& entry : fs::directory_iterator(path)) fs::remove_all(entry.path());
  for (const auto& [name, content] : folder) {
    if (name.find('/') != std::string::npos) fs::create_directories((path / name).parent_path());
    if (name.ends_with('/')) continue;
    int fd = ::open((path / name).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    bool written = ::write(fd, content->data(), content->size()) == static_cast<ssize_t>(content->size());
    if (::close(fd) != 0 || !written) throw std::runtime_error("cannot write " + (path / name).string());
  }
}

struct SimulatedDisk::Recorder {
  explicit Recorder(const fs::path& path) : folder(path), folder_inode(inode_of(path)) {
    for (const auto& [name, content] : read_folder(path)) {
      files[inode_of(path / name)] = static_cast<std::uint32_t>(contents.size());
      names[name] = static_cast<std::uint32_t>(contents.size());
      sizes.push_back(content->size());
      contents.push_back(content);
    }
    now = names;
  }

  /// The name when it lies in the folder, else "".
  std::string name_in_folder(int at, const char* name) const {
    fs::path path(name);
    if (at == AT_FDCWD) {
      fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
      return inode_of(parent) == folder_inode ? path.filename().string() : "";
    }
    return inode_of(at) == folder_inode ? path.string() : "";
  }

  void add(DiskOp op) { log.push_back(std::move(op)); }

  void opened(int fd, const std::string& name, int flags) {
    if (now.count(name) == 0) {
      auto number = static_cast<std::uint32_t>(contents.size());
      contents.push_back(nullptr);
      sizes.push_back(0);
      files[inode_of(fd)] = number;
      now[name] = number;
      add({.kind = Kind::create, .file = number, .name = name});
    } else if ((flags & O_TRUNC) != 0) {
      resized(fd);
    }
  }

  void resized(int fd) {
    struct stat status {};
    auto found = files.find(inode_of(fd));
    if (found == files.end() || ::fstat(fd, &status) != 0) return;
    auto size = static_cast<std::uint64_t>(status.st_size);
    if (size == sizes[found->second]) return;
    sizes[found->second] = size;
    add({.kind = Kind::resize, .file = found->second, .offset = size});
  }

  void wrote(int fd, std::string bytes, std::uint64_t offset) {
    auto found = files.find(inode_of(fd));
    if (found == files.end()) return;
    sizes[found->second] = std::max<std::uint64_t>(sizes[found->second], offset + bytes.size());
    add({.kind = Kind::write, .file = found->second, .offset = offset, .bytes = std::move(bytes)});
  }

  void synced(int fd) {
    ino_t inode = inode_of(fd);
    if (inode == folder_inode) return add({.kind = Kind::sync_folder});
    auto found = files.find(inode);
    if (found != files.end()) add({.kind = Kind::sync_file, .file = found->second});
  }

  void moved(Kind kind, const std::string& from, const std::string& to) {
    auto found = now.find(from);
    if (found == now.end()) return;
    std::uint32_t file = found->second;
    add({.kind = kind, .file = file, .name = from, .second_name = to});
    if (kind == Kind::rename) now.erase(found);
    now[to] = file;
  }

  void removed(const std::string& name) {
    auto found = now.find(name);
    if (found == now.end()) return;
    add({.kind = Kind::unlink, .file = found->second, .name = name});
    now.erase(found);
  }

  std::mutex mutex;
  fs::path folder;
  ino_t folder_inode;
  std::map<ino_t, std::uint32_t> files;
  std::map<std::string, std::uint32_t> names;
  std::map<std::string, std::uint32_t> now;
  std::vector<std::shared_ptr<const std::string>> contents;
  std::vector<std::uint64_t> sizes;
  std::vector<DiskOp> log;

  static Recorder* active;
  static const ckpt::detail::FileOps kOps;
};

SimulatedDisk::Recorder* SimulatedDisk::Recorder::active = nullptr;

// Each carries the call out, then writes down what it did.
const ckpt::detail::FileOps SimulatedDisk::Recorder::kOps = {
    .openat =
        [](int at, const char* name, int flags, mode_t mode) {
          std::lock_guard lock(active->mutex);
          int fd = system_file_ops().openat(at, name, flags, mode);
          std::string file = active->name_in_folder(at, name);
          if (fd >= 0 && !file.empty()) active->opened(fd, file, flags);
          return fd;
        },
    .pwrite =
        [](int fd, const void* data, std::size_t size, off_t offset) {
          std::lock_guard lock(active->mutex);
          ssize_t n = system_file_ops().pwrite(fd, data, size, offset);
          if (n > 0)
            active->wrote(fd, {static_cast<const char*>(data), static_cast<std::size_t>(n)},
                          static_cast<std::uint64_t>(offset));
          return n;
        },
    .copy_file_range =
        [](int in, off_t* in_offset, int out, off_t* out_offset, std::size_t size, unsigned flags) {
          std::lock_guard lock(active->mutex);
          off_t from = *in_offset;
          off_t to = *out_offset;
          ssize_t n = system_file_ops().copy_file_range(in, in_offset, out, out_offset, size, flags);
          if (n <= 0) return n;
          std::string bytes(static_cast<std::size_t>(n), '\0');
          if (::pread(in, bytes.data(), bytes.size(), from) != n)
            throw std::runtime_error("cannot read what was copied");
          active->wrote(out, std::move(bytes), static_cast<std::uint64_t>(to));
          return n;
        },
    .fallocate =
        [](int fd, int mode, off_t offset, off_t size) {
          std::lock_guard lock(active->mutex);
          int result = system_file_ops().fallocate(fd, mode, offset, size);
          if (result == 0) active->resized(fd);
          return result;
        },
    .ftruncate =
        [](int fd, off_t size) {
          std::lock_guard lock(active->mutex);
          int result = system_file_ops().ftruncate(fd, size);
          if (result == 0) active->resized(fd);
          return result;
        },
    .fsync =
        [](int fd) {
          std::lock_guard lock(active->mutex);
          active->synced(fd);
          return 0;
        },
    .close = [](int fd) { return system_file_ops().close(fd); },
    .renameat2 =
        [](int from_at, const char* from, int to_at, const char* to, unsigned flags) {
          std::lock_guard lock(active->mutex);
          int result = system_file_ops().renameat2(from_at, from, to_at, to, flags);
          if (result == 0)
            active->moved(Kind::rename, active->name_in_folder(from_at, from), active->name_in_folder(to_at, to));
          return result;
        },
    .linkat =
        [](int from_at, const char* from, int to_at, const char* to, int flags) {
          std::lock_guard lock(active->mutex);
          int result = system_file_ops().linkat(from_at, from, to_at, to, flags);
          if (result == 0)
            active->moved(Kind::link, active->name_in_folder(from_at, from), active->name_in_folder(to_at, to));
          return result;
        },
    .unlinkat =
        [](int at, const char* name, int flags) {
          std::lock_guard lock(active->mutex);
          int result = system_file_ops().unlinkat(at, name, flags);
          if (result == 0) active->removed(active->name_in_folder(at, name));
          return result;
        },
    .set_lock = [](int fd, const struct flock* region) { return system_file_ops().set_lock(fd, region); },
};

SimulatedDisk::SimulatedDisk(const fs::path& folder) : recorder_(std::make_unique<Recorder>(folder)) {
  Recorder::active = recorder_.get();
  ckpt::detail::set_file_ops(Recorder::kOps);
}

SimulatedDisk::~SimulatedDisk() {
  stop();
}

void SimulatedDisk::stop() {
  if (Recorder::active != recorder_.get()) return;
  ckpt::detail::set_file_ops(system_file_ops());
  Recorder::active = nullptr;
}

const std::vector<DiskOp>& SimulatedDisk::log() const {
  return recorder_->log;
}

const std::vector<std::shared_ptr<const std::string>>& SimulatedDisk::start_contents() const {
  return recorder_->contents;
}

const std::map<std::string, std::uint32_t>& SimulatedDisk::start_names() const {
  return recorder_->names;
}

bool SimulatedDisk::accounts_for(const Folder& now) const {
  Folder replayed = build_state(*this, {log().size(), std::vector<Survival>(log().size()), Lost::nothing, 0});
  if (replayed.size() != now.size()) return false;
  for (const auto& [name, content] : now) {
    auto found = replayed.find(name);
    if (found == replayed.end() || *found->second != *content) return false;
  }
  return true;
}

}  // namespace test::faults
