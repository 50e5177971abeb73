#pragma once
// Standard output as a place for a checkpoint (`-o -`). Formats are written with offsets that are known late, and a
// reader must never take half a file for a whole one: so the file is made in a temporary folder and sent when it is
// complete. Thread safety: one thread.
// Use: StandardOutputFile file; ckpt::save(checkpoint, file.path(), {.format = "safetensors"}); file.send(out);

#include <filesystem>
#include <optional>
#include <string>

#include "libckpt/io/pending_files.h"
#include "tools/ckpt/output/output.h"

namespace cli {

/// True for "-". A file of that name is "./-".
bool is_standard_output(const std::filesystem::path& target);

/// Error(usage) when standard output is a terminal.
void check_standard_output();

class StandardOutputFile {
 public:
  /// In $TMPDIR, else /var/tmp. Error(io) when no folder can be made there.
  StandardOutputFile();
  ~StandardOutputFile();
  StandardOutputFile(const StandardOutputFile&) = delete;
  StandardOutputFile& operator=(const StandardOutputFile&) = delete;

  std::filesystem::path path() const { return folder_ + "/checkpoint"; }
  /// Writes the file to `out`. Error(io).
  void send(Output& out) const;

 private:
  std::string folder_;
  std::optional<ckpt::detail::PendingFolder> pending_folder_;
  std::optional<ckpt::detail::PendingFile> pending_file_;
};

}  // namespace cli
