// The kernels for small shapes against plain loops and against the general path, at sizes around those of a vector.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/autograd/gradcheck.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/detail/recurrent.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::DType;
using core::Tensor;

/// a b by a loop in double, whatever the strides.
std::vector<double> product_of(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  const auto m = static_cast<std::size_t>(a.size(0)), k = static_cast<std::size_t>(a.size(1));
  const auto n = static_cast<std::size_t>(b.size(1));
  std::vector<double> c(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t p = 0; p < k; ++p) {
      for (std::size_t j = 0; j < n; ++j) c[i * n + j] += x[i * k + p] * y[p * n + j];
    }
  }
  return c;
}

void expect_close(const Tensor& got, const std::vector<double>& want, double tolerance, const std::string& what) {
  const std::vector<double> values = got.to_vector<double>();
  ASSERT_EQ(values.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(values[i], want[i], tolerance * std::max(1.0, std::abs(want[i]))) << what << " at " << i;
  }
}

const std::vector<std::tuple<int, int, int>> kProducts = {
    {1, 1, 1},    {1, 10, 64},  {1, 13, 506}, {2, 3, 5},    {3, 17, 15},  {4, 16, 16}, {5, 31, 33},
    {7, 32, 8},   {8, 10, 64},  {8, 64, 32},  {9, 33, 1},   {13, 1, 506}, {16, 48, 7}, {17, 47, 19},
    {31, 20, 40}, {40, 65, 66}, {64, 3, 64},  {506, 1, 13}, {1, 100, 3},  {2, 1, 40},  {100, 15, 1},
};

TEST(SmallProduct, IsRightForEveryLayoutOfItsFactors) {
  core::manual_seed(0);
  for (auto [m, n, k] : kProducts) {
    const std::string sizes = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    const Tensor a = core::randn({m, k}), b = core::randn({k, n});
    const std::vector<double> want = product_of(a, b);
    const Tensor turned_a = a.t().contiguous().t(), turned_b = b.t().contiguous().t();
    const Tensor wide_a = core::cat({a, a}, 1).slice(1, 0, k), wide_b = core::cat({b, b}, 1).slice(1, 0, n);
    expect_close(core::mm(a, b), want, 1e-4, sizes);
    expect_close(core::mm(turned_a, b), want, 1e-4, sizes + " a turned");
    expect_close(core::mm(a, turned_b), want, 1e-4, sizes + " b turned");
    expect_close(core::mm(turned_a, turned_b), want, 1e-4, sizes + " both turned");
    expect_close(core::mm(wide_a, wide_b), want, 1e-4, sizes + " parts of wider rows");
  }
}

TEST(SmallProduct, ScalesAndAddsToWhatIsThere) {
  core::manual_seed(1);
  for (auto [m, n, k] : kProducts) {
    const Tensor a = core::randn({m, k}), b = core::randn({k, n}), c = core::randn({m, n});
    std::vector<double> want = product_of(a, b);
    const std::vector<double> start = c.to_vector<double>();
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = 0.5 * want[i] - 2 * start[i];
    expect_close(core::addmm(c, a, b, -2, 0.5), want, 1e-4, "addmm");
    expect_close(core::addmm(c, a, b.t().contiguous().t(), -2, 0.5), want, 1e-4, "addmm, b turned");
  }
}

TEST(SmallProduct, DoesNotDependOnTheNumberOfThreads) {
  core::manual_seed(2);
  const Tensor a = core::randn({40, 33}), b = core::randn({33, 50});
  core::set_num_threads(1);
  const Tensor one = core::mm(a, b);
  core::set_num_threads(4);
  EXPECT_TRUE(core::equal(core::mm(a, b), one));
}

TEST(SmallProduct, KeepsNaN) {
  Tensor a = core::zeros({8, 17}), b = core::zeros({17, 20});
  a.mutable_data<float>()[3 * 17 + 16] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> c = core::mm(a, b).to_vector<float>();
  for (std::size_t i = 0; i < c.size(); ++i) EXPECT_EQ(std::isnan(c[i]), i / 20 == 3) << i;
}

/// Gradients of sum(y * factor) with respect to all inputs.
std::vector<Tensor> gradients(const Tensor& y, const Tensor& factor, const std::vector<Tensor>& inputs) {
  return core::grad({core::sum(y * factor)}, inputs);
}

TEST(Linear, HasTheValuesAndGradientsOfItsParts) {
  core::manual_seed(3);
  for (DType dtype : {DType::f32, DType::f64}) {
    for (auto [m, n, k] : kProducts) {
      const Tensor x = core::randn({m, k}, {.dtype = dtype, .requires_grad = true});
      const Tensor w = core::randn({n, k}, {.dtype = dtype, .requires_grad = true});
      const Tensor b = core::randn({n}, {.dtype = dtype, .requires_grad = true});
      const Tensor factor = core::randn({m, n}, {.dtype = dtype});
      const Tensor fused = core::linear(x, w, b), parts = core::addmm(b, x, w.t());
      const double tolerance = dtype == DType::f32 ? 2e-4 : 1e-12;
      expect_close(fused, parts.to_vector<double>(), tolerance, "value");
      const auto got = gradients(fused, factor, {x, w, b}), want = gradients(parts, factor, {x, w, b});
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(got[i].sizes(), want[i].sizes());
        expect_close(got[i], want[i].to_vector<double>(), tolerance, "gradient " + std::to_string(i));
      }
    }
  }
}

TEST(Linear, GivesTheWeightADenseGradientThatIsItsOwn) {
  const Tensor w = core::ones({3, 4}, {.requires_grad = true}), b = core::ones({3}, {.requires_grad = true});
  core::linear(core::ones({2, 4}), w, b).sum().backward();
  EXPECT_TRUE(w.grad().is_contiguous());
  EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(12, 2));
  EXPECT_EQ(b.grad().to_vector<float>(), std::vector<float>(3, 2));
}

TEST(Linear, RecordsTheGraphOfAddmmAndT) {
  const Tensor w = core::ones({3, 4}, {.requires_grad = true}), b = core::ones({3}, {.requires_grad = true});
  const Tensor y = core::linear(core::ones({2, 4}), w, b);
  EXPECT_EQ(y.grad_fn_name(), "AddmmBackward0");
  const auto& edges = y.grad_fn()->next_edges();
  ASSERT_EQ(edges.size(), 3u);
  EXPECT_EQ(edges[0].node->name(), "torch::autograd::AccumulateGrad");
  EXPECT_FALSE(edges[1].node);
  EXPECT_EQ(edges[2].node->name(), "TBackward0");
}

/// Backward leaves out a node that nobody has looked at. Whoever looks, be it from a hook in the middle of a backward,
/// finds it in its place, and what hooks on it see is the gradient of the transposed weight.
TEST(Linear, HasTheSameGradientsWhetherItsGraphIsLookedAtOrNot) {
  core::manual_seed(6);
  const Tensor x = core::randn({2, 4}), start = core::randn({3, 4}), b = core::randn({3});
  const auto grads = [&](int looks) {
    const Tensor w = start.clone().requires_grad_(), p = w * 2;
    const Tensor y = core::linear(core::linear(x, p, b), core::ones({4, 3}), core::zeros({4})) * 1;
    const core::IntrusivePtr<core::Node> first = y.grad_fn()->next_edges()[0].node->next_edges()[1].node;
    EXPECT_EQ(first->name(), "AddmmBackward0");
    std::vector<float> seen;
    const auto look = [&] {
      const core::Edge& edge = first->next_edges()[2];
      EXPECT_EQ(edge.node->name(), "TBackward0");
      EXPECT_EQ(edge.node->outputs()[0].sizes, (core::Shape{4, 3}));
      EXPECT_EQ(edge.node->next_edges()[0].node.get(), p.grad_fn().get());
      EXPECT_EQ(edge.node->sequence_nr() + 1, first->sequence_nr());
    };
    if (looks == 1) look();
    if (looks == 2) y.register_hook([&](const Tensor& g) { return look(), g; });
    if (looks == 3) {
      first->next_edges()[2].node->hooks().push_back({1, 0, [&](const Tensor& g) {
                                                        seen = g.t().contiguous().to_vector<float>();
                                                        return Tensor();
                                                      }});
    }
    y.sum().backward({}, true);
    y.sum().backward();
    if (looks == 3) {
      EXPECT_EQ(seen, (w.grad() * 0.25).to_vector<float>());  // of two backwards, and w * 2
    }
    return w.grad().to_vector<float>();
  };
  const std::vector<float> wanted = grads(0);
  for (int looks = 1; looks <= 3; ++looks) EXPECT_EQ(grads(looks), wanted) << looks;
}

TEST(Linear, CountsTheNodeThatItLeavesOut) {
  const Tensor x = core::ones({2, 4}), w = core::ones({3, 4}, {.requires_grad = true}), b = core::ones({3});
  const auto number = [](const Tensor& t) { return t.grad_fn()->sequence_nr(); };
  const Tensor first = w * 1, before = w * 1, y = core::linear(x, w, b), after = w * 1;
  EXPECT_EQ(number(y), number(before) + 2);
  EXPECT_EQ(number(after), number(y) + 1);
}

TEST(Linear, WantsOnlyTheGradientsThatAreWanted) {
  const Tensor x = core::ones({2, 4}, {.requires_grad = true}), w = core::ones({3, 4}), b = core::ones({3});
  core::linear(x, w, b).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(8, 3));
  EXPECT_FALSE(w.grad().defined());
}

TEST(Linear, HasSecondDerivatives) {
  core::manual_seed(4);
  const core::RandomOptions wanted{.dtype = DType::f64, .requires_grad = true};
  const Tensor x = core::randn({3, 4}, wanted), w = core::randn({2, 4}, wanted), b = core::randn({2}, wanted);
  const auto squares_of_gradients = [](std::span<const Tensor> in) {
    const auto g = core::grad({core::sum(core::tanh(core::linear(in[0], in[1], in[2])))}, {in[0], in[1], in[2]},
                              {.create_graph = true});
    return core::sum(core::square(g[0])) + core::sum(core::square(g[1])) + core::sum(core::square(g[2]));
  };
  EXPECT_TRUE(core::gradcheck(squares_of_gradients, {x, w, b}));
}

TEST(Linear, SeesAChangeInPlaceOfWhatItKept) {
  const Tensor x = core::ones({2, 4}), w = core::ones({3, 4}, {.requires_grad = true}), b = core::ones({3});
  const Tensor y = core::linear(x, w, b).sum();
  x.add_(1);
  EXPECT_THROW(y.backward(), core::Error);
}

TEST(Softmax, IsRightAtEveryLength) {
  core::manual_seed(5);
  for (int length : {1, 2, 7, 8, 10, 15, 16, 17, 31, 33, 64, 100}) {
    const Tensor x = core::randn({3, length}) * 5;
    const Tensor wide = x.to(DType::f64);
    const Tensor exact = core::exp(wide) / core::sum(core::exp(wide), {.dims = {1}, .keepdim = true});
    const std::string what = std::to_string(length);
    expect_close(core::softmax(x, 1), exact.to_vector<double>(), 1e-6, what);
    expect_close(core::log_softmax(x, 1), core::log(exact).to_vector<double>(), 2e-6, what);
    expect_close(core::softmax(x.t().contiguous(), 0).t(), exact.to_vector<double>(), 1e-6, what + " across");
  }
}

TEST(Softmax, GivesNothingToMinusInfinityAndSpreadsNaN) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(core::softmax(core::from_values(std::vector<float>{0, -inf, 0}), 0).to_vector<float>(),
            (std::vector<float>{0.5F, 0, 0.5F}));
  for (int length : {3, 20}) {
    for (int at : {0, length - 1}) {
      std::vector<float> values(static_cast<std::size_t>(length), 1);
      values[static_cast<std::size_t>(at)] = nan;
      for (float p : core::softmax(core::from_values(values), 0).to_vector<float>()) EXPECT_TRUE(std::isnan(p));
    }
  }
  for (float p : core::softmax(core::full({5}, -inf), 0).to_vector<float>()) EXPECT_TRUE(std::isnan(p));
}

TEST(Softmax, HasTheGradientsOfItsFormula) {
  core::manual_seed(6);
  for (int length : {1, 10, 16, 21}) {
    const Tensor x = core::randn({4, length}, {.requires_grad = true}), factor = core::randn({4, length});
    const Tensor parts = x - core::log(core::sum(core::exp(x), {.dims = {1}, .keepdim = true}));
    const auto got = gradients(core::log_softmax(x, 1), factor, {x}), want = gradients(parts, factor, {x});
    expect_close(got[0], want[0].to_vector<double>(), 2e-5, std::to_string(length));
  }
}

struct LstmCase {
  int steps, batch, in, hidden;
  bool reverse;
};

TEST(LstmLayer, HasTheValuesAndGradientsOfItsSteps) {
  core::manual_seed(7);
  const std::vector<LstmCase> cases = {{1, 1, 1, 1, false}, {3, 1, 4, 5, true},   {4, 3, 2, 7, false},
                                       {2, 8, 5, 16, true}, {3, 9, 3, 17, false}, {2, 17, 6, 33, true},
                                       {5, 2, 3, 8, false}, {2, 40, 3, 20, false}};
  for (DType dtype : {DType::f32, DType::f64}) {
    for (const LstmCase& c : cases) {
      const core::RandomOptions wanted{.dtype = dtype, .requires_grad = true};
      const std::vector<Tensor> in = {core::randn({c.steps, c.batch, c.in}, wanted),
                                      core::randn({c.batch, c.hidden}, wanted),
                                      core::randn({c.batch, c.hidden}, wanted),
                                      core::randn({4 * c.hidden, c.in}, wanted),
                                      core::randn({4 * c.hidden, c.hidden}, wanted),
                                      core::randn({4 * c.hidden}, wanted),
                                      core::randn({4 * c.hidden}, wanted)};
      const core::RecurrentWeights w{in[3], in[4], in[5], in[6]};
      const Tensor factor = core::randn({c.steps, c.batch, c.hidden}, {.dtype = dtype});
      const auto loss = [&](const core::RecurrentLayer& y) {
        return core::sum(y.output * factor) + core::sum(y.last.h) + core::sum(core::square(y.last.c));
      };
      const auto fused = core::detail::lstm_layer("Lstm", in[0], {in[1], in[2]}, w, c.reverse);
      const auto steps = core::detail::stepwise_layer(core::RecurrentKind::lstm, in[0], {in[1], in[2]}, w, c.reverse);
      const double tolerance = dtype == DType::f32 ? 2e-4 : 1e-10;
      expect_close(fused.output, steps.output.to_vector<double>(), tolerance, "output");
      expect_close(fused.last.c, steps.last.c.to_vector<double>(), tolerance, "cell");
      const auto got = core::grad({loss(fused)}, in), want = core::grad({loss(steps)}, in);
      for (std::size_t i = 0; i < in.size(); ++i) {
        expect_close(got[i], want[i].to_vector<double>(), tolerance, "gradient " + std::to_string(i));
      }
    }
  }
}

TEST(LstmLayer, DoesNotDependOnTheNumberOfThreads) {
  core::manual_seed(8);
  const core::NoGradGuard no_history;
  const core::RecurrentWeights w{core::randn({80, 6}), core::randn({80, 20}), core::randn({80}), core::randn({80})};
  const Tensor x = core::randn({5, 67, 6}), h = core::randn({67, 20}), c = core::randn({67, 20});
  const auto run = [&](int threads) {
    core::set_num_threads(threads);
    return core::detail::lstm_layer("Lstm", x, {h, c}, w, false).output;
  };
  EXPECT_TRUE(core::equal(run(1), run(4)));
}

TEST(LstmLayer, HoldsAtTheEndsOfItsGates) {
  const core::NoGradGuard no_history;
  const core::RecurrentWeights w{core::full({4, 1}, 100.0), core::zeros({4, 1}), core::zeros({4}), core::zeros({4})};
  const Tensor x = core::from_values(std::vector<float>{1, -1}).view({2, 1, 1}), zero = core::zeros({1, 1});
  const auto y = core::detail::lstm_layer("Lstm", x, {zero, zero}, w, false);
  EXPECT_NEAR(y.output.to_vector<float>()[0], std::tanh(1.0), 1e-6);  // all gates open
  EXPECT_NEAR(y.output.to_vector<float>()[1], 0, 1e-6);               // all gates shut
}

TEST(Stack, JoinsPartsOfEveryKind) {
  const Tensor a = core::arange(6).view({2, 3}), b = a + 10;
  EXPECT_EQ(core::stack({a, b}).to_vector<int>(), (std::vector<int>{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(core::stack({a.t(), b.t()}).to_vector<int>(), (std::vector<int>{0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15}));
  EXPECT_EQ(core::stack({a, a.to(DType::f64)}).dtype(), DType::f64);
  EXPECT_EQ(core::stack({core::zeros({0, 3}), core::zeros({0, 3})}).sizes(), (core::Shape{2, 0, 3}));
  EXPECT_EQ(core::stack({core::zeros({}), core::ones({})}).to_vector<float>(), (std::vector<float>{0, 1}));
}

/// Its gradient takes the place of the one that it is made of, unless somebody else has that one.
TEST(Relu, LeavesGradientsThatOthersSeeAlone) {
  const Tensor x = core::tensor({-1.0, 2.0, -3.0, 4.0}).requires_grad_();
  const std::vector<float> ones(4, 1), wanted = {0, 1, 0, 1};
  const Tensor given = core::ones({4});
  core::relu(x).backward(given);
  EXPECT_EQ(given.to_vector<float>(), ones);
  EXPECT_EQ(x.grad().to_vector<float>(), wanted);
  Tensor seen;
  const Tensor y = core::relu(x * 1), z = y * 1;
  y.retain_grad();
  z.register_hook([&](const Tensor& grad) { return seen = grad, grad; });
  z.sum().backward();
  EXPECT_EQ(y.grad().to_vector<float>(), ones);
  EXPECT_EQ(seen.to_vector<float>(), ones);
  const Tensor again = core::relu(x), bias = core::zeros({4}, {.requires_grad = true});
  (again + bias).backward(core::ones({4}));  // one gradient for both
  EXPECT_EQ(bias.grad().to_vector<float>(), ones);
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 3, 0, 3}));
  std::vector<float> bytes = ones;
  const Tensor of_hook = core::relu(x), end = of_hook * 1;
  of_hook.register_hook([&](const Tensor&) { return core::from_blob(bytes.data(), {4}, DType::f32); });
  end.sum().backward();
  EXPECT_EQ(bytes, ones);
}

/// At widths around those of a vector, and with a last column or row that no window has.
TEST(MaxPool, PutsGradientsWhereTheValuesCameFrom) {
  core::manual_seed(7);
  for (const std::int64_t width : {2, 6, 8, 14, 15, 16, 28, 32, 34, 40, 66, 70}) {
    for (const std::int64_t height : {2, 5, 6}) {
      const Tensor x = core::randint(0, 5, {3, 2, height, width}).to(DType::f32).requires_grad_();
      const core::ValuesIndices pooled = core::max_pool2d_with_indices(x, 2);
      const Tensor g = core::randn(pooled.values.sizes());
      pooled.values.backward(g);
      std::vector<float> wanted(static_cast<std::size_t>(x.numel()));
      const auto from = g.to_vector<float>();
      const auto where = pooled.indices.to_vector<std::int64_t>();
      const auto picked = static_cast<std::size_t>(g.size(2) * g.size(3));
      for (std::size_t i = 0; i < from.size(); ++i) {
        wanted[i / picked * static_cast<std::size_t>(height * width) + static_cast<std::size_t>(where[i])] += from[i];
      }
      EXPECT_EQ(x.grad().to_vector<float>(), wanted) << height << " x " << width;
    }
  }
}

TEST(ColumnSums, AddRowsAsTheGeneralSumDoes) {
  core::manual_seed(9);
  for (auto [rows, columns] :
       std::vector<std::pair<int, int>>{{1, 5}, {3, 40}, {8, 64}, {15, 33}, {16, 10}, {70, 45}, {300, 7}}) {
    const Tensor x = core::randn({rows, columns});
    // The same sums where rows do not lie evenly, so that the general loop takes them.
    const Tensor apart = core::cat({x, x}, 1).view({rows, 2, columns}).select(1, 0);
    EXPECT_TRUE(core::equal(x.sum({0}), apart.sum({0}))) << rows << "x" << columns;
    expect_close(x.sum({0}), x.to(DType::f64).sum({0}).to_vector<double>(), 1e-5, "sum");
  }
}

}  // namespace
