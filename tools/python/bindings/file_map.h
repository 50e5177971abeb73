#pragma once
// FileMap: a file, or a part of it, in memory, read by the system as it is touched. A file that is cut off meanwhile
// ends the process by a signal when the lost part is touched, as every map does. Thread safety: any thread. Use:
// std::shared_ptr<const FileMap> map = FileMap::whole(range.fd);

#include <memory>

#include "libckpt/io/byte_source.h"

namespace python {

class FileMap {
 public:
  /// All of it, for reading alone. Those who ask for one file share one map, which lasts as long as the last of them.
  /// Null where the system does not map the file.
  static std::shared_ptr<const FileMap> whole(int fd);
  /// A part that nobody shares; what is written to it stays in it. Null likewise.
  static std::shared_ptr<const FileMap> part(const ckpt::FileRange& range);
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  /// The bytes of a range of the file; null outside of the map.
  void* at(std::uint64_t offset, std::uint64_t length) const;

 private:
  FileMap(void* memory, std::uint64_t begin, std::uint64_t size) : memory_(memory), begin_(begin), size_(size) {}
  void* memory_;
  std::uint64_t begin_;  // where in the file
  std::uint64_t size_;
};

}  // namespace python
