#pragma once
// Which files of a run's folder need tensors that others hold (format/shared_tensors.h), as their own indexes say.
// Internal to libckpt. Thread safety: pure. Use: for (const StepNeed& need : needs_of("runs/a")) ...

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ckpt::detail {

struct StepNeed {
  std::string file;    ///< its name
  std::string needed;  ///< name of the file that holds tensors of it
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
};

/// Of all files there, steps of the run or not. Errors: Error(io) for what cannot be read.
std::vector<StepNeed> needs_of(const std::filesystem::path& folder);

/// "step-000000200.ckpt needs 3 of its tensors, 1.2 GiB".
std::string text_of(const StepNeed& need);

/// Makes the file of that name durable, and those that it needs, before another one names them. Errors: Error(io).
void make_files_durable(const std::filesystem::path& folder, const std::string& name);

}  // namespace ckpt::detail
