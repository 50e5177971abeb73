#pragma once
// The files of a distributed checkpoint: opened once each, ranges of them by name. Thread safety: one owner; the
// sources may be read from many threads. Use: DcpFiles files(folder); SourcePtr bytes = files.range(place);

#include <filesystem>
#include <map>
#include <string>

#include "libckpt/format/dcp/metadata.h"
#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

class DcpFiles {
 public:
  explicit DcpFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// Errors: Error(corrupt) when the file is missing or ends before the range does; Error(io).
  SourcePtr range(const DcpPlace& place);
  const std::map<std::string, SourcePtr>& opened() const { return files_; }
  /// Of all that were opened.
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [name, file] : files_) sum += file->size();
    return sum;
  }

 private:
  std::filesystem::path folder_;
  std::map<std::string, SourcePtr> files_;
};

}  // namespace ckpt::detail
