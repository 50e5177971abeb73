#pragma once
// average: one model from several checkpoints of it: the mean, a weighted mean, or an exponential moving average.
// Values are computed while the result is read, in double precision (complex ones in double complex), and rounded once
// to the dtype of the tensor; memory is a few blocks a file, whatever the size. Thread safety: pure. Use:
// ckpt::Checkpoint soup = ckpt::average({ckpt::open("e1.pth"), ckpt::open("e2.pth")});

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt {

struct AverageOptions {
  /// One a checkpoint, any positive scale (they are divided by their sum). Empty: all count the same.
  std::vector<double> weights = {};
  /// Instead of a mean: each checkpoint in turn, a = decay * a + (1 - decay) * x. 0 = mean. Below 1.
  double ema_decay = 0;
  /// Which state dict of each; one for all, or one a checkpoint. Empty: the only one outside optimizer states.
  std::vector<std::string> at = {};
};

struct AverageReport {
  std::uint64_t checkpoints = 0;
  std::uint64_t averaged = 0;             ///< tensors of floats
  std::uint64_t equal = 0;                ///< integers, bools and the like that all files agree about
  std::vector<std::string> taken_last;    ///< those that differ: the last file's are taken
  std::vector<std::string> norm_buffers;  ///< running_mean and running_var: means of them fit no set of weights exactly
};

/// The state dict of the first checkpoint, at the top, with averaged values; everything around it is left out. Errors:
/// Error(usage) for fewer than two checkpoints or weights that make no sense; Error(refused) listing keys, shapes and
/// dtypes that differ; Error(unsupported) for floats that cannot be computed with (4 and 6 bits).
Checkpoint average(const std::vector<Checkpoint>& checkpoints, const AverageOptions& options = {},
                   AverageReport* report = nullptr);

}  // namespace ckpt
