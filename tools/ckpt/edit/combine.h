#pragma once
// Commands that make one checkpoint of several: opening them all, what reading said of them, the save, and the line
// that says what was made. Thread safety: one thread. Use: return run_combination(context, options, "avg", combine);

#include <functional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/io/json.h"
#include "tools/ckpt/line/options.h"
#include "tools/ckpt/output/output.h"

namespace cli {

/// What was made of several checkpoints.
struct Combination {
  ckpt::Checkpoint checkpoint;
  std::string summary;                          ///< "5 tensors averaged over 3 files"
  std::vector<std::string> warnings;            ///< what the user should know, one sentence each
  std::function<void(ckpt::JsonWriter&)> json;  ///< members that --json adds
};

/// "2 integer tensors differ between the files ('steps', ...); the last file's are taken", for "2 integer tensors" and
/// "the last file's". REQUIRES: `names` is not empty.
std::string differing_text(const std::vector<std::string>& names, const std::string& counted, const std::string& whose);

/// `at`: which state dict of each file, as FILE::path says it.
using CombineFunction = std::function<Combination(const std::vector<ckpt::Checkpoint>&, std::vector<std::string> at)>;

/// Combines options.files into options.output. Errors: those of ckpt::open(), ckpt::save() and `combine`; Error(usage)
/// for a target that is one of the files.
int run_combination(Context& context, const EditOptions& options, const std::string& command,
                    const CombineFunction& combine);

}  // namespace cli
