// SparseAdam, and sparse gradients in the other optimizers: three steps against PyTorch 2.15.
#include "libcore/optim/sparse_adam.h"

#include <gtest/gtest.h>

#include "libcore/module/embedding.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/adafactor.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/adaptive.h"
#include "libcore/optim/averaging.h"
#include "libcore/optim/muon.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/optim/three_steps.h"

namespace {

using core::Tensor;
using test::expect_close;
using test::message_of;
using test::parameter;

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

}  // namespace
