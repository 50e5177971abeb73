#pragma once
// Carrying out the plan of a diagnosis, and writing it down as one command and one line of Python.
// Thread safety: pure. Use: ckpt::Checkpoint fixed = ckpt::apply_fix(checkpoint, diagnosis.plan);

#include <string>
#include <utility>
#include <vector>

#include "libckpt/analyze/why.h"

namespace ckpt {

/// Carries out all steps. Tensors are read when the result is saved; transposed ones piece by piece. Errors:
/// Error(key) when the checkpoint is not the one the plan was made for; Error(collision).
Checkpoint apply_fix(const Checkpoint& checkpoint, const FixPlan& plan);

/// What the command line of a fix needs to know beside the plan.
struct FixCommand {
  std::string program = "ckpt";
  std::vector<std::pair<std::string, std::string>> options = {};  ///< what `why` was told: --for resnet50
  bool lacks_message = false;  ///< the message came by a pipe and is too long to be an option
};

/// One shell line: the special command where one step has one ("ckpt strip-prefix best.pth"), else `ckpt fix`. For a
/// file that no edit can cure what fetches it again. Quoted for the shell, whatever the file holds (pasteable.h). ""
/// when there is nothing to do.
std::string command_line(const Diagnosis& diagnosis, const FixCommand& command = {});

/// For a file of a format that libckpt loads and PyTorch does not read (native): the command that makes a PyTorch file
/// of it, or of what the fix wrote. "" for any other file.
std::string convert_line(const Diagnosis& diagnosis, const std::string& program = "ckpt");

/// The same in Python, for those who must: one line, quoted likewise. "" when there is nothing to do, or Python does
/// not read the format with torch or safetensors.
std::string python_line(const Diagnosis& diagnosis);

}  // namespace ckpt
