// The GRU layer, whose steps are one kernel, beside a loop over cells: values and gradients.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/threads.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/recurrent.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::Tensor;

struct Case {
  std::int64_t steps, batch, in, hidden;
  bool bias, reverse;
  core::DType dtype = core::DType::f64;
};

struct Layer {
  Tensor x, h;
  core::RecurrentWeights w;

  explicit Layer(const Case& c) {
    const auto made = [&](const core::Shape& sizes) { return core::randn(sizes, {.dtype = c.dtype}).requires_grad_(); };
    x = made({c.steps, c.batch, c.in});
    h = made({c.batch, c.hidden});
    w.w_ih = made({3 * c.hidden, c.in});
    w.w_hh = made({3 * c.hidden, c.hidden});
    if (!c.bias) return;
    w.b_ih = made({3 * c.hidden});
    w.b_hh = made({3 * c.hidden});
  }
  std::vector<Tensor> leaves() const {
    std::vector<Tensor> all{x, h, w.w_ih, w.w_hh};
    if (w.b_ih.defined()) all.insert(all.end(), {w.b_ih, w.b_hh});
    return all;
  }
};

struct Outputs {
  Tensor output, last;
};

Outputs by_layer(const Layer& layer, bool reverse) {
  const auto made = core::recurrent_layer(core::RecurrentKind::gru, layer.x, {layer.h}, layer.w, reverse);
  return {made.output, made.last.h};
}

Outputs by_cells(const Layer& layer, bool reverse) {
  std::vector<Tensor> inputs = layer.x.unbind(0), outputs;
  if (reverse) std::reverse(inputs.begin(), inputs.end());
  Tensor h = layer.h;
  for (const Tensor& input : inputs) outputs.push_back(h = core::gru_cell(input, h, layer.w));
  if (reverse) std::reverse(outputs.begin(), outputs.end());
  return {core::stack(outputs), h};
}

/// Values, then gradients, of a sum that weighs every element differently.
std::vector<Tensor> all_of(const Layer& layer, const Outputs& out) {
  const auto weighed = [](const Tensor& t) {
    return (t * core::arange(1, t.numel() + 1).to(t.dtype()).reshape(t.sizes())).sum();
  };
  const std::vector<Tensor> leaves = layer.leaves();
  std::vector<Tensor> all{out.output, out.last};
  for (const Tensor& g : core::grad({weighed(out.output) + weighed(out.last * 3)}, leaves)) all.push_back(g);
  return all;
}

void expect_as_cells(const Case& c, double tolerance) {
  core::manual_seed(11);
  const Layer layer(c);
  const auto got = all_of(layer, by_layer(layer, c.reverse)), expected = all_of(layer, by_cells(layer, c.reverse));
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double size = core::abs(expected[i]).max().item<double>();
    EXPECT_LE(core::abs(got[i] - expected[i]).max().item<double>(), tolerance * (1 + size))
        << "tensor " << i << ", batch " << c.batch << ", hidden " << c.hidden << (c.reverse ? ", reverse" : "");
  }
}

TEST(GruLayer, IsALoopOverCells) {
  for (const std::int64_t hidden : {1, 5, 8, 16, 17, 40}) {
    for (const std::int64_t batch : {1, 3, 8, 11}) {
      expect_as_cells({4, batch, 6, hidden, true, false}, 1e-12);
      expect_as_cells({3, batch, 2, hidden, false, true}, 1e-12);
      expect_as_cells({4, batch, 6, hidden, true, hidden % 2 == 0, core::DType::f32}, 5e-5);
    }
  }
}

TEST(GruLayer, HasTheSameBitsOnSeveralThreads) {
  const Case c{40, 48, 8, 64, true, false, core::DType::f32};
  std::vector<std::vector<Tensor>> runs;
  for (const int threads : {1, 2}) {
    core::set_num_threads(threads);
    core::manual_seed(12);
    const Layer layer(c);
    const Outputs out = by_layer(layer, false);
    runs.push_back({out.output.detach(), core::grad({out.output.sum()}, std::vector<Tensor>{layer.h})[0]});
  }
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(core::abs(runs[0][i] - runs[1][i]).max().item<float>(), 0);
}

/// Near 0 tanh keeps all of its digits.
TEST(GruLayer, KeepsTheDigitsOfSmallStates) {
  core::manual_seed(13);
  Layer layer({1, 2, 3, 16, true, false, core::DType::f32});
  const core::NoGradGuard no_history;
  for (Tensor* t : {&layer.x, &layer.h, &layer.w.b_ih, &layer.w.b_hh}) t->mul_(1e-6);
  const Tensor got = by_layer(layer, false).output;
  for (Tensor* t : {&layer.x, &layer.h, &layer.w.w_ih, &layer.w.w_hh, &layer.w.b_ih, &layer.w.b_hh}) {
    *t = t->to(core::DType::f64);
  }
  const Tensor expected = by_cells(layer, false).output;
  EXPECT_LE((core::abs(got.to(core::DType::f64) - expected) / core::abs(expected)).max().item<double>(), 1e-4);
}

}  // namespace
