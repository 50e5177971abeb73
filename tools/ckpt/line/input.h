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

/// `dequantize`: layers of GPTQ, AWQ and compressed-tensors are one weight each, as the files beside it say. Errors:
/// those of ckpt::open(), ckpt::value_at() and ckpt::dequantize() with the file as context.
Input open_input(const ReadOptions& options, const std::string& file, bool dequantize = false);

/// --dequantize.
void add_dequantize_option(CommandSpec command, bool& dequantize);

/// Warns of tensors that --lenient let pass although their checksums do not match, as far as their bytes were read; the
/// report gets the sentence, too. For the end of a command that only looks.
void say_damage(const ReadOptions& options, Input& input);

}  // namespace cli
