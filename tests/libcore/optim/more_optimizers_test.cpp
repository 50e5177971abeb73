// SparseAdam, Adafactor, Muon, and sparse gradients in the others: three steps against PyTorch 2.15.
#include "libcore/optim/more_optimizers.h"

#include <gtest/gtest.h>

#include "libcore/core.h"

namespace {

using core::NestedValues;
using core::Shape;
using core::Tensor;

template <class F>
std::string message_of(F function) {
  try {
    function();
  } catch (const core::Error& error) {
    return error.message();
  }
  return "no error";
}

void expect_close(const Tensor& found, const NestedValues& expected, double rtol = 1e-5) {
  EXPECT_TRUE(core::allclose(found, core::tensor(expected), {.rtol = rtol, .atol = 1e-6})) << found;
}

Tensor parameter(const Shape& sizes) {
  return core::linspace(-1, 1, sizes.numel()).view(sizes).clone().requires_grad_();
}
/// Three steps with gradients from a simple rule.
void run_dense(core::Optimizer& optimizer, const std::vector<Tensor>& params) {
  for (int k = 0; k < 3; ++k) {
    for (const Tensor& p : params) {
      p.set_grad(core::arange(static_cast<double>(p.numel())).view(p.sizes()) * 0.3 - 0.5 + 0.1 * k);
    }
    optimizer.step();
  }
}
void run_sparse(core::Optimizer& optimizer, const Tensor& w) {
  for (int k = 0; k < 3; ++k) {
    const Tensor values = core::arange(6.0).view({3, 2}) * 0.2 - 0.3 + 0.1 * k;
    w.set_grad(core::sparse_coo_tensor(core::tensor({{1, 3, 1}}), values, {5, 2}));
    optimizer.step();
  }
}
void give_sparse_gradient(const Tensor& w) {
  w.set_grad(core::sparse_coo_tensor(core::tensor({{1, 1}}), core::ones({2, 2}), w.sizes()));
}

TEST(SparseAdam, ThreeSteps) {
  const Tensor w = parameter({5, 2});
  core::SparseAdam optimizer({w}, {.lr = 0.1});
  run_sparse(optimizer, w);
  expect_close(w, {{-1.0, -0.7777778},
                   {-0.8478736, -0.6327465},
                   {-0.1111111, 0.1111111},
                   {0.0410155, 0.2561426},
                   {0.7777778, 1.0}});
  EXPECT_EQ(optimizer.str(),
            "SparseAdam (\nParameter Group 0\n    betas: (0.9, 0.999)\n    eps: 1e-08\n    lr: 0.1\n    maximize: "
            "False\n)");
  EXPECT_EQ(optimizer.state_of(w)[0].first, "exp_avg");
}

TEST(SparseAdam, Errors) {
  const Tensor w = parameter({5, 2});
  EXPECT_EQ(message_of([&] { core::SparseAdam({w}, {.lr = 0.0}); }), "Invalid learning rate: 0.0");
  EXPECT_EQ(message_of([&] { core::SparseAdam({w}, {.eps = 0.0}); }), "Invalid epsilon value: 0.0");
  EXPECT_EQ(message_of([&] {
              core::SparseAdam({w}, {.betas = {1.0, 0.9}});
            }),
            "Invalid beta parameter at index 0: 1.0");
  w.set_grad(core::ones({5, 2}));
  core::SparseAdam optimizer({w});
  EXPECT_EQ(message_of([&] { optimizer.step(); }),
            "SparseAdam does not support dense gradients, please consider Adam instead");
}

TEST(SparseGradients, SgdWithMomentum) {
  const Tensor w = parameter({5, 2});
  core::SGD optimizer({w}, {.lr = 0.1, .momentum = 0.9});
  run_sparse(optimizer, w);
  expect_close(w, {{-1.0, -0.7777778},
                   {-0.7457556, -0.7479333},
                   {-0.1111111, 0.1111111},
                   {0.2382333, 0.3482556},
                   {0.7777778, 1.0}});
  EXPECT_TRUE(optimizer.state_of(w)[0].second.is_sparse());
}

TEST(SparseGradients, Adagrad) {
  const Tensor w = parameter({5, 2});
  core::Adagrad optimizer({w}, {.lr = 0.1});
  run_sparse(optimizer, w);
  expect_close(
      w,
      {{-1.0, -0.7777778}, {-0.8251767, -0.584044}, {-0.1111111, 0.1111111}, {0.0637122, 0.3048449}, {0.7777778, 1.0}});
}

TEST(SparseGradients, OfAnEmbeddingTrainOnlyItsRows) {
  core::Embedding table(4, 2, {.sparse = true});
  const Tensor before = table.weight.detach().clone();
  core::SGD optimizer(table.parameters(), {.lr = 1.0});
  table(core::tensor({1, 1})).sum().backward();
  optimizer.step();
  expect_close(table.weight - before, {{0.0, 0.0}, {-2.0, -2.0}, {0.0, 0.0}, {0.0, 0.0}});
  optimizer.zero_grad(false);
  EXPECT_EQ(core::nnz(table.weight.grad()), 0);
}

TEST(SparseGradients, OthersRefuseThem) {
  const Tensor w = parameter({5, 2});
  give_sparse_gradient(w);
  const auto step = [](auto optimizer) { return message_of([&] { optimizer->step(); }); };
  EXPECT_EQ(step(std::make_unique<core::Adam>(std::vector{w})),
            "Adam does not support sparse gradients, please consider SparseAdam instead");
  EXPECT_EQ(step(std::make_unique<core::AdamW>(std::vector{w})),
            "Adam does not support sparse gradients, please consider SparseAdam instead");
  EXPECT_EQ(step(std::make_unique<core::RMSprop>(std::vector{w})), "RMSprop does not support sparse gradients");
  EXPECT_EQ(step(std::make_unique<core::Rprop>(std::vector{w})), "Rprop does not support sparse gradients");
  EXPECT_EQ(step(std::make_unique<core::Adafactor>(std::vector{w})), "Adafactor does not support sparse gradients");
  EXPECT_EQ(step(std::make_unique<core::Muon>(std::vector{w})), "Muon does not support sparse gradients");
  EXPECT_EQ(step(std::make_unique<core::Adagrad>(std::vector{w}, core::AdagradOptions{.weight_decay = 0.1})),
            "weight_decay option is not compatible with sparse gradients");
  EXPECT_EQ(step(std::make_unique<core::SGD>(std::vector{w}, core::SGDOptions{.weight_decay = 0.1})),
            "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
}

TEST(Adafactor, ThreeSteps) {
  const std::vector<Tensor> params{parameter({2, 3}), parameter({3})};
  core::Adafactor optimizer(params);
  run_dense(optimizer, params);
  expect_close(params[0], {{-0.9662181, -0.5932462, -0.2106462}, {0.184347, 0.5792458, 0.9793116}});
  expect_close(params[1], {-0.9784096, 0.0135319, 0.9715862});
  expect_close(optimizer.state_of(params[0])[1].second, {{0.0733}, {0.7333}}, 1e-3);
  EXPECT_EQ(optimizer.str(),
            "Adafactor (\nParameter Group 0\n    beta2_decay: -0.8\n    d: 1.0\n    eps: (None, 0.001)\n    foreach: "
            "None\n    lr: 0.01\n    maximize: False\n    weight_decay: 0.0\n)");
}

TEST(Adafactor, ThreeStepsWithAllOptions) {
  const std::vector<Tensor> params{parameter({2, 3}), parameter({3})};
  core::Adafactor optimizer(
      params, {.lr = 0.1, .eps = {core::Scalar(1e-6), 1e-2}, .d = 2.0, .weight_decay = 0.1, .maximize = true});
  run_dense(optimizer, params);
  expect_close(params[0], {{-1.3634374, -0.6572317, -0.0657018}, {0.3791463, 0.8259283, 1.2128414}});
  expect_close(params[1], {-1.2006617, -0.1375151, 1.2782964});
}

TEST(Adafactor, Errors) {
  const std::vector<Tensor> params{parameter({3})};
  EXPECT_EQ(message_of([&] { core::Adafactor(params, {.lr = -1.0}); }), "Learning rate should be >= 0 but is: -1.0");
  EXPECT_EQ(message_of([&] { core::Adafactor(params, {.beta2_decay = 1.0}); }),
            "beta2_decay should be <= 0 but is: 1.0");
  EXPECT_EQ(message_of([&] { core::Adafactor(params, {.d = 0.5}); }),
            "Clipping threshold d should be >= 1 but is: 0.5");
  EXPECT_EQ(message_of([&] {
              core::Adafactor(params, {.eps = {core::Scalar(-1.0), 1e-3}});
            }),
            "epsilon1 should be >= 0 but is: -1.0");
}

TEST(Muon, ThreeSteps) {
  const std::vector<Tensor> params{parameter({2, 3}), parameter({4, 2})};
  core::Muon optimizer(params);
  run_dense(optimizer, params);
  expect_close(params[0], {{-0.9970948, -0.5992352, -0.2013715}, {0.1993575, 0.5986288, 0.9978994}}, 2e-5);
  expect_close(params[1],
               {{-0.997474, -0.7153046}, {-0.4275438, -0.1442228}, {0.1423813, 0.4268465}, {0.7122872, 0.9979544}},
               2e-5);
  expect_close(optimizer.state_of(params[0])[0].second,
               {{-0.0565875, -0.0138, 0.0289875}, {0.071775, 0.1145625, 0.15735}}, 2e-3);
}

TEST(Muon, ThreeStepsWithAnotherRate) {
  const std::vector<Tensor> params{parameter({2, 3}), parameter({4, 2})};
  core::Muon optimizer(params, {.lr = 0.1, .weight_decay = 0.0, .nesterov = false, .adjust_lr_fn = "match_rms_adamw"});
  run_dense(optimizer, params);
  expect_close(params[0], {{-0.9036547, -0.5779434, -0.2525028}, {0.181394, 0.5589991, 0.9366719}}, 2e-3);
  EXPECT_EQ(optimizer.str(),
            "Muon (\nParameter Group 0\n    adjust_lr_fn: match_rms_adamw\n    eps: 1e-07\n    lr: 0.1\n    momentum: "
            "0.95\n    nesterov: False\n    ns_coefficients: (3.4445, -4.775, 2.0315)\n    ns_steps: 5\n    "
            "weight_decay: 0.0\n)");
}

TEST(Muon, Errors) {
  EXPECT_EQ(message_of([] { core::Muon({parameter({3})}); }),
            "Muon only supports 2D parameters whereas we found a parameter with size: torch.Size([3])");
  EXPECT_EQ(message_of([] {
              core::Muon({parameter({3, 3})}, {.lr = -1.0});
            }),
            "Learning rate should be >= 0 but is: -1.0");
  EXPECT_EQ(message_of([] {
              core::Muon({parameter({3, 3})}, {.adjust_lr_fn = "x"});
            }),
            "Adjust learning rate function x is not supported");
}

}  // namespace
