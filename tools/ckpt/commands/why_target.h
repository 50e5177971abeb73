#pragma once
// What `why` and `fix` compare a file with: --for and --error, read into options of the library.
// Thread safety: one thread. Use: add_target_options(command, target); ckpt::WhyOptions o = target.why(read, at);

#include <string>
#include <vector>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why/fix.h"
#include "tools/ckpt/line/options.h"

namespace cli {

struct TargetOptions {
  std::vector<std::string> names;  ///< --for: key list, checkpoint, or the name of a known model
  std::string error;               ///< --error: text, a file with text, or "-"
  std::string message;             ///< what it says, once read

  /// Reads the message; to be called once, before why(). Where there is no --error and standard input is a file that
  /// holds an error message, it is that. Such a file is looked at without moving on in it, so that
  /// `while read f; do ckpt why "$f"; done < list` works; a pipe is not, as what started the program may never close
  /// it. Errors: Error(io); Error(refused) when it is too long.
  void read_message();

  /// Reads the lists that were named. Errors: Error(usage) with names that are alike for a --for that is nothing;
  /// Error(io); those of reading a list.
  ckpt::WhyOptions why(const ReadOptions& read, const std::string& at) const;
  /// The same words for a command line that is shown.
  ckpt::FixCommand command() const;

 private:
  /// Whether a fix is another one without the message.
  bool decides(const ckpt::ErrorFacts& facts) const;
};

void add_target_options(CommandSpec command, TargetOptions& target);

/// The keys that one --for names: of a file, or of a known model. Errors: those of reading; Error(usage).
ckpt::KeyList key_list_of_target(const ReadOptions& read, const std::string& name);

/// A model that the zoo knows. Error(usage) with names that are alike.
ckpt::KeyList known_model(const std::string& name);

}  // namespace cli
