// Recurrent layers by the cells of a device against the CPU's, with all gradients.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/backend/opaque/opaque_tables.h"
#include "libcore/data/dataset.h"
#include "libcore/module/recurrent.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/backend/cuda/emulated_tables.h"

namespace core {
namespace {

class RecurrentOnDevice : public testing::Test {
 protected:
  void SetUp() override { set_opaque_devices(1, test::emulated_tables()); }
  void TearDown() override { set_logical_devices(0); }
};

/// Output, last state, and the gradients of the input, the first state and all parameters, on the host.
template <class Layer>
std::vector<Tensor> run(Device device, DType dtype, RecurrentOptions options) {
  manual_seed(3);
  Layer layer(3, 4, options);
  layer.to(device, dtype);
  const auto leaf = [&](const Shape& sizes) { return randn(sizes).to(device, dtype).detach().requires_grad_(); };
  const Tensor x = leaf({5, 2, 3}), h0 = leaf({options.bidirectional ? 2 : 1, 2, 4});
  const auto [y, h] = layer(x, h0);
  (y.square().sum() + h.sin().sum()).backward();
  std::vector<Tensor> found{y.detach(), h.detach(), x.grad(), h0.grad()};
  for (const auto& [name, parameter] : layer.named_parameters()) found.push_back(parameter.grad());
  for (Tensor& t : found) t = t.to(Device(), DType::f64);
  return found;
}

template <class Layer>
void compare(RecurrentOptions options) {
  const std::vector<Tensor> wanted = run<Layer>(Device(), DType::f64, options);
  const std::vector<std::pair<DType, double>> types{{DType::f64, 1e-12}, {DType::f32, 2e-5}};
  for (const auto& [dtype, tolerance] : types) {
    const std::vector<Tensor> found = run<Layer>(Device("cuda:0"), dtype, options);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(allclose(found[i], wanted[i], {.rtol = tolerance, .atol = tolerance})) << i;
    }
  }
}

TEST_F(RecurrentOnDevice, Gru) {
  compare<GRU>({});
  compare<GRU>({.bias = false, .bidirectional = true});
}

TEST_F(RecurrentOnDevice, Rnn) {
  compare<RNN>({});
  compare<RNN>({.bias = false, .bidirectional = true, .nonlinearity = "relu"});
}

TEST_F(RecurrentOnDevice, AStepIsOneKernelBesidesItsProduct) {
  const auto calls = [](const std::string& slot) { return opaque_calls()[slot]; };
  run<GRU>(Device("cuda:0"), DType::f32, {});
  run<RNN>(Device("cuda:0"), DType::f32, {});
  EXPECT_EQ(calls("gru_cell.float32"), calls("gru_cell_grad.float32"));
  EXPECT_EQ(calls("gru_cell.float32") % 5, 0U);
  EXPECT_GE(calls("gru_cell.float32"), 5U);
  EXPECT_EQ(calls("rnn_cell.float32"), calls("rnn_cell_grad.float32"));
  EXPECT_GE(calls("rnn_cell.float32"), 5U);
}

TEST_F(RecurrentOnDevice, HalvesRoundOnceAStep) {
  const auto last = [](Device device, DType dtype) {
    manual_seed(3);
    GRU layer(3, 4);
    layer.to(device, dtype);
    return std::get<0>(layer(randn({5, 2, 3}).to(device, dtype))).detach().to(Device(), DType::f32);
  };
  EXPECT_TRUE(allclose(last(Device("cuda:0"), DType::f16), last(Device(), DType::f32), {.rtol = 0, .atol = 2e-3}));
}

}  // namespace
}  // namespace core
