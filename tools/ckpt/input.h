#pragma once
// One input file of a command that reads: opened, cut down to the place that was named, with its warnings said.
// Thread safety: one thread. Use: Input input = open_input(options, "best.pth::model");

#include <initializer_list>
#include <string>

#include "libckpt/checkpoint.h"
#include "libckpt/report.h"
#include "libcore/base/error.h"
#include "tools/ckpt/address.h"
#include "tools/ckpt/options.h"

namespace cli {

struct Input {
  Address address;
  ckpt::Checkpoint checkpoint;  ///< its root is what the address names
  ckpt::Report report;
};

/// Errors: those of ckpt::open() and ckpt::value_at() with the file as context.
Input open_input(const ReadOptions& options, const std::string& file);

/// Puts the file in front of an error of a tensor's bytes that was thrown while several inputs were read together: the
/// first whose tensor of that name fails in the same words.
void name_input_at_fault(core::Error& error, std::initializer_list<const Input*> inputs);

}  // namespace cli
