#pragma once
// GraphedStep: a training step that is recorded as a CUDA graph and started again as a whole, so that what the host
// does for each of its kernels is done once: what torch.cuda.graph and make_graphed_callables are used for. The first
// calls run as they are, which sets up libraries and the optimizer's state; the next one is recorded; every call
// computes what the plain call would, random numbers included. On devices without graphs every call is a plain one.
// Thread safety: none.
// Use: core::GraphedStep step([&](const std::vector<core::Tensor>& in) {
//        optimizer.zero_grad();
//        core::Tensor loss = core::cross_entropy(net(in[0]), in[1]);
//        loss.backward();
//        optimizer.step();
//        return loss;
//      }, {.device = "cuda:0", .optimizers = {&optimizer}});
//      core::Tensor loss = step({x, y});  // for each batch

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libcore/backend/cuda_graph.h"
#include "libcore/optim/optimizer.h"
#include "libcore/tensor/tensor.h"

namespace core {

class GraphedStep {
 public:
  /// A whole step: forward, backward, update. What it reads besides its arguments must be the same memory in every
  /// call; it must not ask for values (`item()`, `nonzero()`), nor copy from host memory that is not pinned.
  using Work = std::function<Tensor(const std::vector<Tensor>& inputs)>;
  struct Options {
    Device device = DeviceType::cuda;
    int warmup = 3;  ///< plain calls before the one that is recorded; at least 1
    /// Those that `work` steps. SGD, and Adam and AdamW, which need the option `capturable`, read their learning rate
    /// from device memory, so a schedule has nothing recorded again; Muon's update is made of operations that are given
    /// the rate as a number, as is SGD's of parameters that are not contiguous: a changed rate has the step recorded
    /// again, as any other changed option has. Other optimizers count their steps on the host and cannot be recorded.
    std::vector<Optimizer*> optimizers = {};
  };
  /// Errors: Error(value) "GraphedStep: warmup is 0 where at least 1 is needed ...".
  GraphedStep(Work work, Options options);

  /// What `work` returns for these inputs, which may lie on the device or on the host. From the first recorded call on
  /// it is the same tensor each time, without history, whose values the next call replaces: clone what is to stay.
  /// Inputs of other shapes or dtypes than the recorded ones (a smaller last batch) run as they are. Errors: what
  /// `work` throws; those of recording (cuda_graph.h).
  Tensor operator()(const std::vector<Tensor>& inputs);

  /// Whether the next call with the same shapes is a replay.
  bool is_captured() const { return is_recorded_; }
  /// Records again at the next call: after something that `work` reads was replaced.
  void reset();

 private:
  bool fits(const std::vector<Tensor>& inputs) const;
  Tensor call(const std::vector<Tensor>& inputs);
  void capture(const std::vector<Tensor>& inputs);
  std::string options_text() const;
  void note_writes() const;

  Work work_;
  Options options_;
  std::optional<cuda::Stream> stream_;  // of all calls before the replays, so that what they leave lies on one stream
  std::optional<cuda::Graph> graph_;
  bool is_recorded_ = false;
  std::vector<Tensor> inputs_;  // of the graph
  Tensor output_;
  std::string recorded_options_;
  int calls_ = 0;
};

}  // namespace core
