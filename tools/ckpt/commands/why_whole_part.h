#pragma once
// What `why` says of a damaged or cut file beside "fetch it again": the command that keeps what is whole of it.
// Thread safety: one thread. Use: std::optional<WholePart> part = whole_part(diagnosis, {});

#include <cstdint>
#include <optional>
#include <string>

#include "libckpt/analyze/why.h"

namespace cli {

struct WholePart {
  std::string command;        ///< "ckpt rescue cut.pth -o cut.rescued.pth"
  std::uint64_t tensors = 0;  ///< that it keeps; 0 for a file so large that they were not counted
  bool restored = false;      ///< parity data give back every byte

  std::string heading() const;
};

/// Nothing for a file that is neither damaged nor cut, that is not one file on this machine, or of which no tensor is
/// whole. A file of at most limits.max_checked bytes is read for it.
std::optional<WholePart> whole_part(const ckpt::Diagnosis& diagnosis, const ckpt::Limits& limits);

}  // namespace cli
