#include "tools/python/bindings/file_map.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <tuple>

namespace python {
namespace {

/// Which file, in which state: an edit in place makes it another one.
using FileState = std::tuple<dev_t, ino_t, off_t, std::int64_t, std::int64_t>;

struct Maps {
  std::mutex mutex;
  std::map<FileState, std::weak_ptr<const FileMap>> open;
};

Maps& maps() {
  static Maps all;
  return all;
}

}  // namespace

std::shared_ptr<const FileMap> FileMap::whole(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || status.st_size <= 0) return nullptr;
  const FileState state{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  Maps& all = maps();
  std::lock_guard lock(all.mutex);
  if (auto found = all.open.find(state); found != all.open.end()) {
    if (auto map = found->second.lock()) return map;
  }
  std::erase_if(all.open, [](const auto& entry) { return entry.second.expired(); });
  const auto size = static_cast<std::uint64_t>(status.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::shared_ptr<const FileMap> map(new FileMap(memory, 0, size));
  all.open[state] = map;
  return map;
}

std::shared_ptr<const FileMap> FileMap::part(const ckpt::FileRange& range) {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = range.offset / page * page;
  const std::uint64_t size = range.offset + range.length - begin;
  struct stat status {};
  if (::fstat(range.fd, &status) != 0 || range.length > static_cast<std::uint64_t>(status.st_size) ||
      range.offset > static_cast<std::uint64_t>(status.st_size) - range.length) {
    return nullptr;
  }
  void* memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, range.fd, static_cast<off_t>(begin));
  if (memory == MAP_FAILED) return nullptr;
  return std::shared_ptr<const FileMap>(new FileMap(memory, begin, size));
}

FileMap::~FileMap() {
  ::munmap(memory_, size_);
}

void* FileMap::at(std::uint64_t offset, std::uint64_t length) const {
  if (offset < begin_ || offset - begin_ > size_ || length > size_ - (offset - begin_)) return nullptr;
  return static_cast<char*>(memory_) + (offset - begin_);
}

}  // namespace python
