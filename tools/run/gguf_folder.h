#pragma once
// A GGUF file of llama.cpp as the folder that runs: its configuration and its tokenizer in a temporary folder, its
// weights by their names in transformers, computed while they are read. Thread safety: one thread.
// Use: GgufFolder folder(options); run_folder(context, options, &folder);

#include <filesystem>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/io/pending_files.h"
#include "tools/run/run_options.h"

namespace cli {

/// Whether NAME is a file that ends in .gguf.
bool names_gguf(const RunOptions& options);

class GgufFolder {
 public:
  /// Errors: those of ckpt::open() and ckpt::from_gguf_model(), naming the file; Error(io) where no folder can be made
  /// in $TMPDIR.
  explicit GgufFolder(const RunOptions& options);
  ~GgufFolder();
  GgufFolder(const GgufFolder&) = delete;
  GgufFolder& operator=(const GgufFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }
  const ckpt::Checkpoint& weights() const { return weights_; }
  const std::vector<std::string>& notes() const { return notes_; }
  /// Writes them into the folder. Errors: those of ckpt::save().
  void store_weights();
  /// `error` with the file where it names the folder.
  core::Error by_file(const core::Error& error) const;

 private:
  void make_folder();
  void remove();
  void write(const std::string& name, core::Bytes bytes);

  std::string file_;
  std::filesystem::path folder_;
  std::optional<ckpt::detail::PendingFolder> pending_folder_;
  std::list<ckpt::detail::PendingFile> pending_files_;
  ckpt::Checkpoint weights_;
  std::vector<std::string> notes_;
};

}  // namespace cli
