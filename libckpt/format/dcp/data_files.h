#pragma once
// The files of a distributed checkpoint: opened once each, ranges of them by name. Thread safety: range() and its
// sources from many threads; the rest has one owner. Use: DcpFiles files(folder, options); SourcePtr bytes =
// files.range(place);

#include <filesystem>
#include <map>
#include <mutex>
#include <string>

#include "libckpt/format/dcp/metadata.h"
#include "libckpt/format/dcp/parts_file.h"
#include "libckpt/io/byte_source.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/options.h"

namespace ckpt::detail {

class DcpFiles {
 public:
  /// Reads the list of parts where there is one of this save. Errors: Error(corrupt) for a part that is missing or has
  /// another size than when it was written.
  DcpFiles(std::filesystem::path folder, const std::string& save_id, const OpenOptions& options);
  /// Errors: Error(corrupt) when the file is missing, is of another save, or ends before the range does; Error(refused)
  /// for a link that leads out of the folder, unless allowed; Error(io).
  SourcePtr range(const DcpPlace& place);
  const std::map<std::string, SourcePtr>& opened() const { return files_; }
  /// Whether they lie on another machine.
  bool are_far() const { return is_remote_name(folder_); }
  /// Of the save that wrote the folder; without parts where it wrote no list of them.
  const PartsFile& parts() const { return parts_; }
  /// Whether pieces are opened when they are read: what lies far away, and what is known to be there.
  bool opens_late() const { return are_far() || !parts_.parts.empty(); }
  /// Of all that were opened, and of all parts.
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const PartFacts& part : parts_.parts) sum += part.size;
    for (const auto& [name, file] : files_) sum += parts_.find(name) != nullptr ? 0 : file->size();
    return sum;
  }

 private:
  void read_parts(const std::string& save_id);
  SourcePtr open(const std::string& name) const;
  SourcePtr opened_file(const std::string& name);

  std::filesystem::path folder_;
  OpenOptions options_;  ///< without a report, which may go before this
  std::mutex opening_;   ///< of files_
  std::map<std::string, SourcePtr> files_;
  PartsFile parts_;
};

}  // namespace ckpt::detail
