#pragma once
// What all commands that write have in common: which file goes where, what may be overwritten, dry runs, the save
// itself, and the line that says what changed.
// Thread safety: one thread. Use: return run_edits(context, options, {"strip-prefix", "plain"}, transform);

#include <functional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/io/json.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/line/options.h"

namespace cli {

/// What a transform made of a checkpoint.
struct Edit {
  ckpt::Checkpoint checkpoint;
  bool changed = true;
  std::string summary;                          ///< "142 of 142 keys renamed"
  std::vector<std::string> steps;               ///< one line each, for --dry-run
  std::string nothing;                          ///< why no output is worth writing; the exit code is then 1
  std::vector<std::string> warnings;            ///< what the user should know, one sentence each
  std::function<void(ckpt::JsonWriter&)> json;  ///< members that --json adds
};

using EditFunction = std::function<Edit(const ckpt::Checkpoint& checkpoint, const std::string& at)>;

struct EditCommand {
  std::string name;            ///< of the command
  std::string tag;             ///< of the default output: "plain" makes net.plain.pth
  std::string extension = {};  ///< of outputs that the user did not name, where it is not the input's: ".gguf"
};

/// Runs `edit` over all files. Every target is checked before the first file is read. Errors: Error(usage) for options
/// that contradict each other or a target that is its own source; Error(io) for a target that exists, without --force.
int run_edits(Context& context, const EditOptions& options, const EditCommand& command, const EditFunction& edit);

/// Where one file goes.
struct Job {
  Address source;
  std::filesystem::path target;
  std::string format;  ///< of the output, "" = by its name
  bool named = true;   ///< the user wrote the target down, so a symbolic link there is followed
};

/// The rest of run_edits for one file whose target is known and checked. Returns the exit code.
int run_job(Context& context, const EditOptions& options, const EditCommand& command, const Job& job,
            const EditFunction& edit, ckpt::JsonWriter& json);

/// Saves to `target`, standard output ("-") and a folder that is to be made (a final '/' in options.output) included.
/// Returns the title of the format that was written.
std::string save_to(Context& context, const EditOptions& options, const ckpt::Checkpoint& checkpoint,
                    const std::filesystem::path& target, ckpt::SaveOptions save);

/// "2.0 KiB written as PyTorch zip checkpoint".
std::string written_text(std::uint64_t bytes, const std::string& format_title);

/// What the options say about the save itself; format, progress and report are the caller's.
ckpt::SaveOptions save_options(const EditOptions& options);

/// Error(usage) when `target` is the source, or standard output that is a terminal or wanted for JSON, and for a file
/// that --in-place is not to touch without being asked (replaced_file.h); Error(io) when it exists or is a folder,
/// without --force, and when it is a symbolic link that the user did not name: that might lead anywhere.
void check_target(const EditOptions& options, const Job& job);

}  // namespace cli
