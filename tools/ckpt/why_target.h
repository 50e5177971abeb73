#pragma once
// What `why` and `fix` compare a file with: --for and --error, read into options of the library.
// Thread safety: one thread. Use: add_target_options(command, target); ckpt::WhyOptions o = target.why(read, at);

#include <string>
#include <vector>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why_fix.h"
#include "tools/ckpt/options.h"

namespace cli {

struct TargetOptions {
  std::vector<std::string> names;  ///< --for: key list, checkpoint, or the name of a known model
  std::string error;               ///< --error: text, a file with text, or "-"

  /// Reads everything that was named. Errors: Error(usage) with names that are alike for a --for that is nothing;
  /// Error(io); those of reading a list.
  ckpt::WhyOptions why(const ReadOptions& read, const std::string& at) const;
  /// The same words for a command line that is shown.
  ckpt::FixCommand command() const;
};

void add_target_options(CommandSpec command, TargetOptions& target);

/// A model that the zoo knows. Error(usage) with names that are alike.
ckpt::KeyList known_model(const std::string& name);

}  // namespace cli
