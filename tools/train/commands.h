#pragma once
// The commands of the program. Each prints to standard output and gives an exit code.
// Thread safety: one at a time. Use: return train::learn({.options = o});

#include <string>

#include "tools/train/generate.h"
#include "tools/train/options.h"

namespace train {

struct Manners {
  bool json = false;   ///< one JSON object at the end in place of lines
  bool quiet = false;  ///< nothing but errors
};

struct LearnRequest {
  RunOptions options = {};
  bool overwrite = false;
  bool dry_run = false;
  Manners manners = {};
};
/// `train fit`, `train text`.
int learn(const LearnRequest& request);
/// `train resume`: goes on as the config of `folder` says and as the user says on top of it; what the user says is kept
/// in that config, so that the next resume knows it.
int resume(const std::string& folder, const RunOptions& given, const Manners& manners);

/// `train evaluate`: weights or a state that lie in the folder of a run. Empty `data`: that of the run.
int evaluate(const std::string& file, const std::string& data, const Manners& manners);
/// `train generate`: the same; a folder stands for its best weights.
int generate_text(const std::string& file, const GenerateOptions& options, std::uint64_t seed);
/// `train list`.
int list(const Manners& manners);

/// The options with which the run in a folder was begun. Error(io) when it holds none.
RunOptions options_of_run(const std::string& folder);

/// "--name=value" texts put into `options`. Errors: Error(usage).
void apply(const std::vector<std::string>& arguments, RunOptions& options);

}  // namespace train
