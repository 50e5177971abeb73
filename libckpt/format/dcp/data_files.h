#pragma once
// The files of a distributed checkpoint: opened once each, ranges of them by name. Thread safety: one owner; the
// sources may be read from many threads. Use: DcpFiles files(folder, options); SourcePtr bytes =
// files.range(place);

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "libckpt/format/dcp/metadata.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/options.h"

namespace ckpt::detail {

class DcpFiles {
 public:
  DcpFiles(std::filesystem::path folder, const OpenOptions& options);
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
  OpenOptions options_;  ///< without a report, which may go before this
  std::mutex opening_;
  std::map<std::string, SourcePtr> files_;
};

}  // namespace ckpt::detail
