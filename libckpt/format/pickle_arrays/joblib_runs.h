#pragma once
// joblib.dump: a pickle in which the values of each array lie behind the opcode that ends its wrapper. How many they
// are, only the wrapper says, so the pickle is followed as far as that. Thread safety: one owner.
// Use: JoblibRuns runs(file, limits); PickleOutline outline = outline_pickle(file, limits, &runs);

#include <string_view>

#include "libckpt/format/torch/pickle_extent.h"
#include "libckpt/format/torch/pickle_machine.h"

namespace ckpt::detail {

/// "joblib.numpy_pickle.NumpyArrayWrapper", or where it once was.
bool is_joblib_wrapper(std::string_view symbol);
/// Whether the beginning of a pickle names it.
bool names_joblib(std::string_view text);

class JoblibRuns final : public BuildRuns {
 public:
  JoblibRuns(const ByteSource& file, const Limits& limits);
  /// Errors: Error(corrupt) for a wrapper that does not say how long its array is, and for one that is longer than the
  /// file; Error(unsupported) for arrays of Python's objects.
  std::optional<PickleOutline::Run> run_behind(core::Bytes piece, std::uint64_t behind) override;
  /// Whether behind each array stood a byte that is no opcode: a program that takes the file for a plain pickle stops
  /// at the first, so that nothing in the values is ever run.
  bool end_plain_readers() const { return end_plain_readers_; }

 private:
  std::optional<NodeId> state_of_wrapper() const;
  NodeId member(NodeId dict, std::string_view key) const;
  std::uint64_t count_of(NodeId shape) const;
  std::uint64_t width_of(NodeId dtype) const;

  const ByteSource& file_;
  PickleMachine machine_;
  bool end_plain_readers_ = true;
};

}  // namespace ckpt::detail
