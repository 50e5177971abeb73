#pragma once
// Runs the helper program on a file and collects its answer. Thread safety: any number of calls at once.
// Use: core::ByteVector answer = run_hdf5_helper(*file, {.max_objects = limits.max_tensors});

#include <cstdint>

#include "libckpt/io/byte_source.h"

namespace ckpt::detail {

struct HelperJob {
  std::uint64_t max_objects = 0;
  std::uint64_t max_depth = 0;
  std::uint64_t seconds = 0;     ///< of wall clock, and of processor time
  std::uint64_t max_answer = 0;  ///< bytes
  bool measure = false;          ///< also count the bytes that belong to nothing
  bool unsandboxed = false;      ///< it reads the file also where the system does not let it be confined
};

/// The frames of a good answer or of one that ends with a failure, hello included; they are not looked at any closer.
/// Errors: Error(unsupported) when there is no helper; Error(corrupt) when it dies, with the stage it was at;
/// Error(refused) when it takes too long or says too much; Error(io) when it cannot be started.
core::ByteVector run_hdf5_helper(const ByteSource& file, const HelperJob& job);

}  // namespace ckpt::detail
