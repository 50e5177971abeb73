#pragma once
// A cuDNN that computes on the host: convolutions lie as their descriptors say, and what the header says is refused is
// refused. It writes down what it was asked. Thread safety: one test at a time.
// Use: core::gpu::Cudnn cudnn(test::simulated_cudnn()); test::set_cudnn(&cudnn); ... test::cudnn_log().runs

#include <string>
#include <vector>

#include "libcore/backend/cuda/cudnn_convolution.h"

namespace test {

/// One call that computes.
struct CudnnRun {
  int pass = 0;          ///< as core::ConvPass
  bool is_last = false;  ///< CUDNN_TENSOR_NHWC
  bool has_bias = false;
  int math = -1;
};

struct CudnnLog {
  std::vector<CudnnRun> runs;
  int heuristics = 0;
  // What to refuse, besides what the header says.
  bool no_choice_for_last = false;  ///< no algorithm is found
  bool no_run_of_last = false;      ///< one is found, but does not run
  bool no_run = false;

  /// Like "last forward, last forward with bias, first input_grad".
  std::string text() const;
};
CudnnLog& cudnn_log();

/// Its calls; everything before is forgotten.
core::gpu::CudnnApi simulated_cudnn();

}  // namespace test
