// Recurrent layers: 64 -> 64, 32 time steps, batch 8; the sum of all outputs is the loss.

#include <array>
#include <memory>
#include <tuple>

#include "libcore/data/dataset.h"
#include "libcore/module/recurrent.h"
#include "tests/bench/bench_steps.h"
#include "tests/bench/bench_training.h"

namespace bench {
namespace {

using core::Device;
using core::Tensor;

template <class Layer>
Step sum_of_outputs(Device d) {
  auto net = on<Layer>(d, 64, 64);
  Tensor x = randn_on({32, 8, 64}, d);
  auto loss = std::make_shared<Tensor>();
  const auto work = [=]() {
    net->zero_grad();
    *loss = std::get<0>((*net)(x)).sum();
    loss->backward();
  };
  return step_of(work, loss, d);
}

constexpr std::array kSteps = {
    StepKind{"gru_fwd_bwd", "GRU 64 -> 64, 32 steps, batch 8, forward and backward", sum_of_outputs<core::GRU>},
    StepKind{"lstm_fwd_bwd", "LSTM 64 -> 64, 32 steps, batch 8, forward and backward", sum_of_outputs<core::LSTM>},
};

}  // namespace

StepTable recurrent_steps() {
  return kSteps;
}

}  // namespace bench
