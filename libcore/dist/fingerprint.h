#pragma once
// Fingerprint: what a rank calls, so that ranks which call different things never mix up bytes, and are told how they
// differ. Internal to dist. Thread safety: plain values. Use: Fingerprint f{.op = "ALLREDUCE"}; f.tag(sequence);

#include <cstdint>
#include <string>
#include <vector>

#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"

namespace core::distributed {

/// c10's name of a scalar type: "Float", "Short".
std::string scalar_name(DType dtype);

struct Fingerprint {
  std::string op = {};  ///< PyTorch's name: "ALLREDUCE", "_ALLGATHER_BASE"
  std::vector<Shape> shapes = {};
  std::vector<DType> dtypes = {};
  std::vector<std::string> devices = {};
  std::string detail = {};  ///< what PyTorch does not look at: the reduction, the root

  /// Of this step and what is called in it; steps that follow each other never share one.
  std::uint32_t tag(std::uint64_t sequence) const;
  /// PyTorch's "CollectiveFingerPrint(SequenceNumber=0, OpType=ALLREDUCE, ...)".
  std::string str(std::uint64_t sequence) const;
  /// "float32, 25.0 MiB".
  std::string brief() const;
  /// For other ranks to compare with; parsed() reads it.
  std::string packed() const;
  static Fingerprint parsed(const std::string& text);
  /// PyTorch's text: "Tensor Tensor shapes: 5 2vs 6 2".
  std::string difference(const Fingerprint& other) const;
};

}  // namespace core::distributed
