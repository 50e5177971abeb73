// Sparse tensors and sparse gradients: values, texts and errors of PyTorch 2.15.
#include "libcore/ops/sparse.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "libcore/autograd/autograd.h"
#include "libcore/backend/logical_devices.h"
#include "libcore/module/embedding.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/optim/clip.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::DType;
using core::Shape;
using core::Tensor;
using test::message_of;

/// Row 2 twice, row 0 once, of four rows of two.
Tensor rows() {
  return core::sparse_coo_tensor(core::tensor({{2, 0, 2}}), core::tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}), {4, 2});
}

TEST(Sparse, ToDenseSumsWhatStandsInOnePlace) {
  EXPECT_TRUE(core::to_dense(rows()).equal(core::tensor({{3.0, 4.0}, {0.0, 0.0}, {6.0, 8.0}, {0.0, 0.0}})));
  const Tensor elements = core::sparse_coo_tensor(core::tensor({{0, 1}, {1, 0}}), core::tensor({1.0, 2.0}), {2, 2});
  EXPECT_TRUE(core::to_dense(elements).equal(core::tensor({{0.0, 1.0}, {2.0, 0.0}})));
  const Tensor dense = core::ones({2});
  EXPECT_TRUE(core::to_dense(dense).is_same(dense));
}

TEST(Sparse, CoalesceSortsAndSums) {
  EXPECT_FALSE(core::is_coalesced(rows()));
  const Tensor once = core::coalesce(rows());
  EXPECT_TRUE(core::sparse_indices(once).equal(core::tensor({{0, 2}})));
  EXPECT_TRUE(core::sparse_values(once).equal(core::tensor({{3.0, 4.0}, {6.0, 8.0}})));
  EXPECT_TRUE(core::coalesce(once).is_same(once));
}

/// In 16 bits each sum is rounded before the next row comes; zeros keep their sign, as there is no zero to begin with.
TEST(Sparse, CoalesceSumsInTheOrderOfTheRows) {
  const auto sums = [](DType dtype, double large, core::Device device = core::DeviceType::cpu) {
    const Tensor places = core::tensor({{2, 0, 2, 0, 2, 2}});
    const Tensor values =
        core::tensor({{large, -0.0}, {-0.0, 1.0}, {1.0, -0.0}, {-0.0, 1.0}, {1.0, 0.0}, {0.25, -0.0}});
    const Tensor x = core::sparse_coo_tensor(places.to(device), values.to(dtype).to(device), {4, 2});
    std::ostringstream text;
    for (const double value : core::sparse_values(core::coalesce(x)).cpu().to_vector<double>()) text << value << ' ';
    return text.str();
  };
  EXPECT_EQ(sums(DType::f16, 2048), "-0 2 2048 0 ");
  EXPECT_EQ(sums(DType::bf16, 256), "-0 2 256 0 ");
  EXPECT_EQ(sums(DType::f32, 2048), "-0 2 2050.25 0 ");
  EXPECT_EQ(sums(DType::f64, 2048), "-0 2 2050.25 0 ");
  core::set_logical_devices(1);  // GPUs keep sums of 16 bits in f32
  EXPECT_EQ(sums(DType::f16, 2048, "cuda"), "-0 2 2050 0 ");
  core::set_logical_devices(0);
}

TEST(Sparse, CoalesceOfBoolIsTrueWhereARowIs) {
  const Tensor places = core::zeros({1, 300}, {.dtype = DType::i64});  // more than a byte counts
  const Tensor values = core::tensor({true, false}).expand({300, 2});
  const Tensor once = core::coalesce(core::sparse_coo_tensor(places, values, {1, 2}));
  EXPECT_EQ(core::to_string(core::sparse_values(once)), "tensor([[ True, False]])");
  EXPECT_EQ(core::to_string(core::to_dense(core::sparse_coo_tensor(places, values, {1, 2}))),
            "tensor([[ True, False]])");
}

TEST(Sparse, CoalesceAddsManyRowsAsOneByOne) {
  core::manual_seed(3);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::int64_t width : {1, 7, 64, 1100}) {
      const Tensor places = core::randint(0, 5, {1, 200});
      const Tensor values = core::randn({200, width}).to(dtype);
      const Tensor once = core::coalesce(core::sparse_coo_tensor(places, values, {5, width}));
      std::vector<Tensor> sums(5);
      for (std::int64_t i = 0; i < 200; ++i) {
        Tensor& sum = sums[static_cast<std::size_t>(places[0][i].item<std::int64_t>())];
        sum = sum.defined() ? sum + values[i] : values[i];
      }
      EXPECT_TRUE(core::sparse_values(once).equal(core::stack(sums))) << width;
    }
  }
}

TEST(Sparse, WhatItSaysOfItself) {
  const Tensor x = rows();
  EXPECT_TRUE(x.is_sparse());
  EXPECT_FALSE(core::ones({1}).is_sparse());
  EXPECT_EQ(x.sizes(), (Shape{4, 2}));
  EXPECT_EQ(x.numel(), 8);
  EXPECT_FALSE(x.is_contiguous());
  EXPECT_EQ(x.device(), core::Device("cpu"));
  EXPECT_EQ(core::to_string(core::layout(x)), "torch.sparse_coo");
  EXPECT_EQ(core::nnz(x), 3);
  EXPECT_EQ(core::sparse_dim(x), 1);
  EXPECT_EQ(core::dense_dim(x), 1);
}

TEST(Sparse, Printing) {
  std::ostringstream text;
  text << rows() << '\n' << core::coalesce(rows()).to_double();
  EXPECT_EQ(text.str(),
            "tensor(indices=tensor([[2, 0, 2]]),\n"
            "       values=tensor([[1., 2.],\n"
            "                      [3., 4.],\n"
            "                      [5., 6.]]),\n"
            "       size=(4, 2), nnz=3, layout=torch.sparse_coo)\n"
            "tensor(indices=tensor([[0, 2]]),\n"
            "       values=tensor([[3., 4.],\n"
            "                      [6., 8.]]),\n"
            "       size=(4, 2), nnz=2, dtype=torch.float64, layout=torch.sparse_coo)");
}

TEST(Sparse, Addition) {
  const Tensor dense = core::ones({4, 2});
  EXPECT_TRUE((dense + rows()).equal(core::tensor({{4.0, 5.0}, {1.0, 1.0}, {7.0, 9.0}, {1.0, 1.0}})));
  const Tensor same = rows() + rows();  // the same places in the same order stay as they are
  EXPECT_EQ(core::nnz(same), 3);
  EXPECT_TRUE(core::to_dense(same).equal(core::to_dense(rows()) * 2));
  const Tensor other = core::sparse_coo_tensor(core::tensor({{3}}), core::tensor({{1.0, 1.0}}), {4, 2});
  EXPECT_TRUE(core::to_dense(core::sub(rows(), other)).equal(core::to_dense(rows()) - core::to_dense(other)));
  EXPECT_EQ(message_of([&] { rows() + dense; }),
            "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  dense.add_(rows(), -1);
  EXPECT_EQ(dense[2].sum().item<double>(), -12);
  const Tensor turned = core::ones({2, 4}).t();  // not row-major
  EXPECT_EQ(turned.add_(rows())[2].sum().item<double>(), 16);
}

TEST(Sparse, OtherOperations) {
  EXPECT_TRUE(core::to_dense(rows() * 2).equal(core::to_dense(rows()) * 2));
  EXPECT_EQ(rows().sum().item<double>(), 21);
  EXPECT_NEAR(rows().norm().item<double>(), 11.1803, 1e-4);
  const Tensor copy = rows();
  EXPECT_EQ(core::nnz(copy.clone()), 3);
  copy.mul_(0.5);
  EXPECT_EQ(core::to_dense(copy)[0][0].item<double>(), 1.5);
  copy.zero_();
  EXPECT_EQ(core::nnz(copy), 0);
  EXPECT_EQ(core::to_dense(copy).sum().item<double>(), 0);
}

TEST(Sparse, OperationsThatDoNotKnowItSaySo) {
  const std::string text = "Could not run this operation with arguments from the 'SparseCPU' backend; use to_dense()";
  EXPECT_EQ(message_of([] { rows().sigmoid(); }), text);
  EXPECT_EQ(message_of([] { core::mm(rows(), core::ones({2, 2})); }), text);
  EXPECT_EQ(message_of([] { rows().clamp_(0, 1); }), text);
  EXPECT_EQ(message_of([] { rows().to_vector<float>(); }), text);
  EXPECT_EQ(message_of([] { rows().fill_(1); }), text);
  EXPECT_EQ(message_of([] { rows().view({8}); }), text);
  EXPECT_EQ(message_of([] { rows()[0]; }), text);
  EXPECT_EQ(message_of([] { core::ones({4, 2}) / rows(); }), text);
  EXPECT_EQ(message_of([] { core::cat({rows(), rows()}); }), text);
  EXPECT_EQ(message_of([] { core::to_dense(rows()).copy_(rows()); }), text);
  EXPECT_EQ(message_of([] { rows().data<float>(); }), "Cannot access data pointer of Tensor that doesn't have storage");
}

TEST(Sparse, OfOneElement) {
  const Tensor one = core::sparse_coo_tensor(core::tensor({{0, 0}}), core::ones({2, 1}), {1, 1});
  EXPECT_TRUE(one.detach().is_sparse());
  EXPECT_EQ((core::ones({1, 1}) + one.detach()).item<double>(), 3);
  EXPECT_EQ(core::to_dense(one.detach() * 2).item<double>(), 4);
}

TEST(Sparse, WhatDoesNotFitIsRefused) {
  const auto make = [](const Tensor& indices, const Tensor& values, const Shape& sizes) {
    return message_of([&] { core::sparse_coo_tensor(indices, values, sizes); });
  };
  EXPECT_EQ(make(core::tensor({{1, 2}}), core::ones({3, 2}), {5, 2}),
            "indices and values must have same nnz, but got nnz from indices: 2, nnz from values: 3");
  EXPECT_EQ(make(core::tensor({{1, 2}}), core::ones({2, 3}), {5, 2}),
            "values has incorrect size, expected [2, 2], got [2, 3]");
  EXPECT_EQ(make(core::tensor({{1, 2}}), core::ones({2, 2}), {5}),
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = 1, sparse_dim = 1, dense_dim = 1");
  EXPECT_EQ(make(core::tensor({{1, 9}}), core::ones({2, 2}), {5, 2}),
            "size is inconsistent with indices: for dim 0, size is 5 but found index 9");
  EXPECT_EQ(make(core::tensor({{1, -9}}), core::ones({2, 2}), {5, 2}), "found negative index -9 for dim 0");
  EXPECT_EQ(message_of([] { core::sparse_indices(rows()); }),
            "Cannot get indices on an uncoalesced tensor, please call .coalesce() first");
  EXPECT_EQ(message_of([] { core::sparse_values(rows()); }),
            "Cannot get values on an uncoalesced tensor, please call .coalesce() first");
  EXPECT_EQ(message_of([] { core::coalesce(core::ones({2})); }),
            "coalesce expected sparse coordinate tensor layout but got Strided");
}

// --- gradients

TEST(SparseGradient, HoldsTheRowsThatWereLookedUpButThePadding) {
  core::Embedding table(5, 2, {.padding_idx = 0, .sparse = true});
  table(core::tensor({{1, 2}, {0, 1}})).sum().backward();
  const Tensor grad = table.weight.grad();
  ASSERT_TRUE(grad.is_sparse());
  EXPECT_EQ(core::to_string(grad),
            "tensor(indices=tensor([[1, 2, 1]]),\n"
            "       values=tensor([[1., 1.],\n"
            "                      [1., 1.],\n"
            "                      [1., 1.]]),\n"
            "       size=(5, 2), nnz=3, layout=torch.sparse_coo)");
  EXPECT_EQ(table.str(), "Embedding(5, 2, padding_idx=0, sparse=True)");
}

TEST(SparseGradient, AccumulatesAndBecomesDenseWithADenseOne) {
  core::Embedding table(5, 2, {.sparse = true});
  table(core::tensor({1, 2})).sum().backward();
  table(core::tensor({1, 2})).sum().backward();
  EXPECT_EQ(core::nnz(table.weight.grad()), 2);
  EXPECT_TRUE(core::to_dense(table.weight.grad())[1].equal(core::tensor({2.0, 2.0})));
  (table.weight * 1).sum().backward();
  EXPECT_FALSE(table.weight.grad().is_sparse());
  EXPECT_TRUE(table.weight.grad()[1].equal(core::tensor({3.0, 3.0})));
  table(core::tensor({1})).sum().backward();
  EXPECT_TRUE(table.weight.grad()[1].equal(core::tensor({4.0, 4.0})));
}

TEST(SparseGradient, OfTwoUsesInOneGraph) {
  core::Embedding table(5, 2, {.sparse = true});
  (table(core::tensor({1})).sum() + table(core::tensor({3, 1})).sum() * 2).backward();
  EXPECT_TRUE(core::to_dense(table.weight.grad())
                  .equal(core::tensor({{0.0, 0.0}, {3.0, 3.0}, {0.0, 0.0}, {2.0, 2.0}, {0.0, 0.0}})));
}

TEST(SparseGradient, OfBags) {
  core::EmbeddingBag bags(5, 2, {.sparse = true});
  const Tensor y = bags(core::tensor({{1, 2}, {1, 1}}));
  EXPECT_EQ(y.grad_fn_name(), "EmbeddingBagBackward0");
  y.sum().backward();
  EXPECT_EQ(core::nnz(bags.weight.grad()), 4);
  EXPECT_TRUE(core::to_dense(bags.weight.grad())[1].equal(core::tensor({1.5, 1.5})));
  EXPECT_EQ(
      message_of([] { core::EmbeddingBag(5, 2, {.mode = core::BagMode::max, .sparse = true})(core::tensor({{1}})); }),
      "max mode does not support sparse weights");
}

TEST(SparseGradient, ScaledByFrequencyIsRefused) {
  core::Embedding table(5, 2, {.scale_grad_by_freq = true, .sparse = true});
  const Tensor y = table(core::tensor({1})).sum();
  EXPECT_EQ(message_of([&] { y.backward(); }),
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients");
}

TEST(SparseGradient, IsClippedByItsNorm) {
  const Tensor w = core::zeros({5, 2}, {.requires_grad = true});
  w.set_grad(core::sparse_coo_tensor(core::tensor({{1, 1}}), core::ones({2, 2}), {5, 2}));
  EXPECT_NEAR(core::clip_grad_norm_({w}, 1.0).item<double>(), 2.8284, 1e-4);
  EXPECT_NEAR(core::to_dense(w.grad())[1][0].item<double>(), 0.7071, 1e-4);
}

}  // namespace
