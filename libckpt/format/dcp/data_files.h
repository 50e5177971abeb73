#pragma once
// The files of a distributed checkpoint: opened once each, ranges of them by name. Thread safety: one owner; the
// sources may be read from many threads. Use: DcpFiles files(folder, Links::inside); SourcePtr bytes =
// files.range(place);

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "libckpt/format/dcp/metadata.h"
#include "libckpt/io/folder_file.h"
#include "libckpt/io/remote_name.h"

namespace ckpt::detail {

class DcpFiles {
 public:
  DcpFiles(std::filesystem::path folder, Links links) : folder_(std::move(folder)), links_(links) {}
  /// Errors: Error(corrupt) when the file is missing or ends before the range does; Error(refused) for a link that
  /// leads out of the folder, unless allowed; Error(io).
  SourcePtr range(const DcpPlace& place);
  const std::map<std::string, SourcePtr>& opened() const { return files_; }
  /// Whether they lie on another machine.
  bool are_far() const { return is_remote_name(folder_); }
  /// Held by who calls range() once the checkpoint is open.
  std::mutex& opening() { return opening_; }
  /// Of all that were opened.
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [name, file] : files_) sum += file->size();
    return sum;
  }

 private:
  std::filesystem::path folder_;
  Links links_;
  std::mutex opening_;
  std::map<std::string, SourcePtr> files_;
};

}  // namespace ckpt::detail
