#pragma once
// One input file of a command that reads: opened, cut down to the place that was named, with its warnings said.
// Thread safety: one thread. Use: Input input = open_input(options, "best.pth::model");

#include "libckpt/checkpoint.h"
#include "libckpt/report.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/line/options.h"

namespace cli {

struct Input {
  Address address;
  ckpt::Checkpoint checkpoint;  ///< its root is what the address names
  ckpt::Report report;
};

/// Errors: those of ckpt::open() and ckpt::value_at() with the file as context.
Input open_input(const ReadOptions& options, const std::string& file);

/// Warns of tensors that --lenient let pass although their checksums do not match, as far as their bytes were read; the
/// report gets the sentence, too. For the end of a command that only looks.
void say_damage(const ReadOptions& options, Input& input);

}  // namespace cli
