// Picking and writing by index: values and errors of PyTorch 2.15.
#include <gtest/gtest.h>

#include "libcore/ops/compare.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/parallel/comm.h"
#include "libcore/parallel/scatter_gather.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/ops/op_test.h"

namespace {

using core::DType;
using core::Shape;
using core::Tensor;
using core::tensor;
using test::counted;
using test::kNan;
using test::message_of;

TEST(PickOps, Taking) {
  EXPECT_EQ(core::to_string(core::take_along_dim(counted(), tensor({{2}, {0}}), 1)),
            "tensor([[2.],\n"
            "        [3.]])");
  EXPECT_EQ(core::to_string(core::take_along_dim(counted(), tensor({5, 0}))), "tensor([5., 0.])");
  EXPECT_EQ(core::to_string(core::take(counted(), tensor({{0, 5}, {-2, 0}}))),
            "tensor([[0., 5.],\n"
            "        [4., 0.]])");
  EXPECT_EQ(message_of([&] { core::take(counted(), tensor({9})); }),
            "out of range: tried to access index 9 on a tensor of 6 elements.");
  EXPECT_EQ(message_of([&] { core::take(counted(), tensor({1}, {.dtype = DType::i32})); }),
            "take(): Expected a long tensor for index, but got Int");
  EXPECT_EQ(message_of([&] { core::take_along_dim(counted(), tensor({1}), 1); }),
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but got 2 dimensions "
            "for input, and 1 dimensions for indices");
  EXPECT_EQ(message_of([&] { core::take_along_dim(counted(), tensor({{1.0}}), 1); }),
            "torch.take_along_dim(): dtype of indices should be Long but got Float");
  EXPECT_EQ(core::to_string(core::argwhere(tensor({{0, 2}, {3, 0}}))),
            "tensor([[0, 1],\n"
            "        [1, 0]])");
  EXPECT_EQ(core::to_string(core::isin(tensor({{1, 2}, {3, 2}}), tensor({2, 5}))),
            "tensor([[False,  True],\n"
            "        [False,  True]])");
  EXPECT_EQ(core::to_string(core::isin(tensor({1.0, kNan}), tensor({kNan}), true)), "tensor([True, True])");
}

TEST(PickOps, WritingRowsAndPlaces) {
  EXPECT_EQ(core::to_string(core::index_copy(counted(), 1, tensor({2, 0}), core::full({2, 2}, 9.0))),
            "tensor([[9., 1., 9.],\n"
            "        [9., 4., 9.]])");
  EXPECT_EQ(core::to_string(core::index_fill(counted(), 1, tensor({-1}), 7)),
            "tensor([[0., 1., 7.],\n"
            "        [3., 4., 7.]])");
  EXPECT_EQ(core::to_string(core::put(counted(), tensor({0, -1}), tensor({9.0, 8.0}))),
            "tensor([[9., 1., 2.],\n"
            "        [3., 4., 8.]])");
  EXPECT_EQ(core::to_string(core::put(counted(), tensor({0, 0}), tensor({9.0, 8.0}), true)),
            "tensor([[17.,  1.,  2.],\n"
            "        [ 3.,  4.,  5.]])");
  EXPECT_EQ(core::to_string(core::masked_scatter(counted(), tensor({true, false, true}), tensor({9.0, 8.0, 7.0, 6.0}))),
            "tensor([[9., 1., 8.],\n"
            "        [7., 4., 6.]])");
  EXPECT_EQ(core::to_string(core::scatter(counted(), 1, tensor({{0}, {2}}), 9)),
            "tensor([[9., 1., 2.],\n"
            "        [3., 4., 9.]])");
  EXPECT_EQ(core::to_string(core::select_scatter(counted(), tensor({9.0, 8.0}), 1, 1)),
            "tensor([[0., 9., 2.],\n"
            "        [3., 8., 5.]])");
  EXPECT_EQ(core::to_string(core::slice_scatter(counted(), core::full({2, 2}, 9.0), {.dim = 1, .start = 0, .step = 2})),
            "tensor([[9., 1., 9.],\n"
            "        [9., 4., 9.]])");
  EXPECT_EQ(core::to_string(core::diagonal_scatter(counted(), tensor({9.0, 8.0}), 1)),
            "tensor([[0., 9., 2.],\n"
            "        [3., 4., 8.]])");
}

// Sums of bool are true where a term is. A factor is one of the type of the sum.
TEST(PickOps, AddingToWholeNumbersAndBool) {
  const Tensor places = tensor({0, 0, 2}), yes = core::ones({3}, {.dtype = DType::boolean});
  const Tensor none = core::zeros({4}, {.dtype = DType::boolean});
  EXPECT_EQ(core::to_string(core::index_add(none, 0, places, yes)), "tensor([ True, False,  True, False])");
  EXPECT_EQ(core::to_string(core::scatter_add(none, 0, places, yes)), "tensor([ True, False,  True, False])");
  const auto all = [] { return core::ones({4}, {.dtype = DType::boolean}); };
  EXPECT_EQ(core::to_string(all().index_add_(0, places, yes, -1)), "tensor([True, True, True, True])");
  EXPECT_EQ(core::to_string(none.clone().index_add_(0, places, yes, 0.5)), "tensor([ True, False,  True, False])");
  EXPECT_EQ(core::to_string(none.clone().index_add_(0, places, yes, 0)), "tensor([False, False, False, False])");
  EXPECT_EQ(core::to_string(tensor({0, 0, 0, 0}).index_add_(0, places, tensor({1, 1, 1}), 1.5)),
            "tensor([2, 0, 1, 0])");
}

TEST(PickOps, WritingErrors) {
  EXPECT_EQ(message_of([&] {
              core::index_copy(counted(), 0, tensor({0}), core::ones({2, 3}));
            }),
            "index_copy_(): Number of indices (1) should be equal to source.size(dim) (2)");
  EXPECT_EQ(message_of([&] {
              core::index_copy(counted(), 0, tensor({5}), core::ones({1, 3}));
            }),
            "index_copy_(): index 5 is out of bounds for dimension 0 with size 2");
  EXPECT_EQ(message_of([&] {
              core::index_copy(counted(), 0, tensor({{0}}), core::ones({1, 3}));
            }),
            "index_copy_(): Index should have dimension 1 or 0 (got 2)");
  EXPECT_EQ(message_of([&] {
              core::index_copy(counted(), 0, tensor({0}), core::ones({1, 3}, {.dtype = DType::f64}));
            }),
            "index_copy_(): self and source expected to have the same dtype, but got (self) Float and (source) Double");
  EXPECT_EQ(message_of([&] {
              core::index_copy(counted(), 0, tensor({0.0}), core::ones({1, 3}));
            }),
            "index_copy_(): Expected a long tensor for index, but got Float");
  EXPECT_EQ(message_of([&] { core::index_fill(counted(), 1, tensor({5}), 7); }),
            "index 5 is out of bounds for dimension 1 with size 3");
  EXPECT_EQ(message_of([&] { core::index_fill(counted(), 1, tensor({{1}}), 7); }), "Index has to be a vector/scalar");
  EXPECT_EQ(
      message_of([&] { core::put(counted(), tensor({1}), core::ones({1}, {.dtype = DType::f64})); }),
      "put_(): self and source expected to have the same dtype, but got self.dtype = Float and source.dtype = Double");
  EXPECT_EQ(message_of([&] { core::put(counted(), tensor({1}), core::ones({2})); }),
            "put_(): Expected source and index to have the same number of elements, but got source.numel() = 2, "
            "index.numel() = 1");
  EXPECT_EQ(message_of([&] {
              core::masked_scatter(counted(), core::ones({2, 3}), core::ones({6}));
            }),
            "masked_scatter_ only supports boolean masks, but got mask with dtype Float");
  EXPECT_EQ(message_of([&] {
              core::masked_scatter(counted(), core::ones({2, 3}, {.dtype = DType::boolean}), core::ones({2}));
            }),
            "Number of elements of source < number of ones in mask");
  EXPECT_EQ(message_of([&] {
              core::masked_scatter(counted(), tensor({true, false, true}), core::ones({4}, {.dtype = DType::f64}));
            }),
            "masked_scatter: expected self and source to have same dtypes but gotFloat and Double");
  EXPECT_EQ(message_of([&] { core::select_scatter(counted(), core::ones({2}), 0, 0); }),
            "expected src to have a size equal to the slice of self. src size = [2], slice size = [3]");
  EXPECT_EQ(message_of([&] {
              core::slice_scatter(counted(), core::ones({2, 2}), {.dim = 1, .start = 0, .end = 1});
            }),
            "expected src to have a size equal to the slice of self. src size = [2, 2], slice size = [2, 1]");
  EXPECT_EQ(message_of([&] { core::diagonal_scatter(counted(), core::ones({3})); }),
            "expected src to have a size equal to the slice of self. src size = [3], slice size = [2]");
}

TEST(PickOps, ScatterReduce) {
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5.0, 6.0, 7.0}), 0, tensor({0, 0, 2}), tensor({3.0, 4.0, 9.0}),
                                                 "sum", true)),
            "tensor([12.,  6., 16.])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5.0, 6.0, 7.0}), 0, tensor({0, 0, 2}), tensor({3.0, 4.0, 9.0}),
                                                 "sum", false)),
            "tensor([7., 6., 9.])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5.0, 6.0, 7.0}), 0, tensor({0, 0, 2}), tensor({3.0, 4.0, 9.0}),
                                                 "prod", true)),
            "tensor([60.,  6., 63.])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5.0, 6.0, 7.0}), 0, tensor({0, 0, 2}), tensor({3.0, 4.0, 9.0}),
                                                 "prod", false)),
            "tensor([12.,  6.,  9.])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5.0, 6.0, 7.0}), 0, tensor({0, 0, 2}), tensor({3.0, 4.0, 9.0}),
                                                 "mean", true)),
            "tensor([4., 6., 8.])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5.0, 6.0, 7.0}), 0, tensor({0, 0, 2}), tensor({3.0, 4.0, 9.0}),
                                                 "mean", false)),
            "tensor([3.5000, 6.0000, 9.0000])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5.0, 6.0, 7.0}), 0, tensor({0, 0, 2}), tensor({3.0, 4.0, 9.0}),
                                                 "amax", true)),
            "tensor([5., 6., 9.])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5.0, 6.0, 7.0}), 0, tensor({0, 0, 2}), tensor({3.0, 4.0, 9.0}),
                                                 "amax", false)),
            "tensor([4., 6., 9.])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5.0, 6.0, 7.0}), 0, tensor({0, 0, 2}), tensor({3.0, 4.0, 9.0}),
                                                 "amin", true)),
            "tensor([3., 6., 7.])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5.0, 6.0, 7.0}), 0, tensor({0, 0, 2}), tensor({3.0, 4.0, 9.0}),
                                                 "amin", false)),
            "tensor([3., 6., 9.])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5, 6}), 0, tensor({0, 0, 1}), tensor({3, 4, -8}), "mean")),
            "tensor([ 4, -1])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(tensor({5.0, 6.0}), 0, tensor({0, 0}), tensor({kNan, 4.0}), "amax")),
            "tensor([nan, 6.])");
  EXPECT_EQ(core::to_string(core::scatter_reduce(counted(), 1, tensor({{1, 1}, {0, 2}}), counted() * 10, "sum")),
            "tensor([[ 0., 11.,  2.],\n"
            "        [33.,  4., 45.]])");
  EXPECT_EQ(message_of([&] {
              core::scatter_reduce(counted(), 1, tensor({{0}}), core::ones({1, 1}), "foo");
            }),
            "reduce argument must be either sum, prod, mean, amax or amin, got foo");
}

TEST(PickOps, RepeatInterleave) {
  EXPECT_EQ(core::to_string(core::repeat_interleave(counted(), tensor({2, 0, 1}), 1)),
            "tensor([[0., 0., 2.],\n"
            "        [3., 3., 5.]])");
  EXPECT_EQ(core::to_string(core::repeat_interleave(tensor({7, 8}), tensor({2, 1}))), "tensor([7, 7, 8])");
  EXPECT_EQ(core::to_string(core::repeat_interleave(counted(), tensor({2}), 0)),
            "tensor([[0., 1., 2.],\n"
            "        [0., 1., 2.],\n"
            "        [3., 4., 5.],\n"
            "        [3., 4., 5.]])");
  EXPECT_EQ(message_of([&] {
              core::repeat_interleave(counted(), tensor({1, 2}), 1);
            }),
            "repeats must have the same size as input along dim, but got repeats.size(0) = 2 and input.size(1) = 3");
  EXPECT_EQ(message_of([&] { core::repeat_interleave(counted(), tensor({1, -2}), 0); }), "repeats can not be negative");
  EXPECT_EQ(message_of([&] {
              core::repeat_interleave(counted(), tensor({{1, 2}}), 0);
            }),
            "repeats must be 0-dim or 1-dim tensor");
  EXPECT_EQ(message_of([&] {
              core::repeat_interleave(counted(), tensor({1.0, 2.0}), 0);
            }),
            "\"repeat_interleave_cpu\" not implemented for 'Float'");
}

TEST(Brackets, Writing) {
  EXPECT_EQ(core::to_string(core::index_put(counted(), {0}, tensor({7.0, 8.0, 9.0}))),
            "tensor([[7., 8., 9.],\n"
            "        [3., 4., 5.]])");
  EXPECT_EQ(core::to_string(core::index_put(counted(), {core::Slice{}, core::Slice{1, {}}}, tensor(7.0))),
            "tensor([[0., 7., 7.],\n"
            "        [3., 7., 7.]])");
  EXPECT_EQ(core::to_string(core::index_put(counted(), {tensor({0, 1}), tensor({0, -1})}, tensor({7.0, 8.0}))),
            "tensor([[7., 1., 2.],\n"
            "        [3., 4., 8.]])");
  EXPECT_EQ(core::to_string(core::index_put(counted(), {counted() > 2.0}, tensor(7.0))),
            "tensor([[0., 1., 2.],\n"
            "        [7., 7., 7.]])");
  EXPECT_EQ(core::to_string(core::index_put(counted(), {counted() > 2.0}, tensor({7}))),
            "tensor([[0., 1., 2.],\n"
            "        [7., 7., 7.]])");
  EXPECT_EQ(core::to_string(core::index_put(counted(), {core::Slice{}, tensor({2, 0})}, tensor({7.0, 8.0}))),
            "tensor([[8., 1., 7.],\n"
            "        [8., 4., 7.]])");
  EXPECT_EQ(core::to_string(core::index_put(counted(), {tensor({0, 0})}, core::ones({3}), true)),
            "tensor([[2., 3., 4.],\n"
            "        [3., 4., 5.]])");
  EXPECT_EQ(core::to_string(core::index_put_(counted(), {core::Ellipsis(), 1}, 7)),
            "tensor([[0., 7., 2.],\n"
            "        [3., 7., 5.]])");
  EXPECT_EQ(core::to_string(core::index_put(counted(), {0}, core::ones({1, 1, 3}))),
            "tensor([[1., 1., 1.],\n"
            "        [3., 4., 5.]])");
}

TEST(Brackets, WritingErrors) {
  EXPECT_EQ(message_of([&] { core::index_put(counted(), {tensor({0})}, core::ones({2})); }),
            "shape mismatch: value tensor of shape [2] cannot be broadcast to indexing result of shape [1, 3]");
  EXPECT_EQ(message_of([&] { core::index_put(counted(), {tensor({0})}, core::ones({3}, {.dtype = DType::f64})); }),
            "Index put requires the source and destination dtypes match, got Float for the destination and Double for "
            "the source.");
  EXPECT_EQ(message_of([&] {
              core::index_put(counted(), {tensor({0, 1}), tensor({0, 2})}, core::ones({3}));
            }),
            "shape mismatch: value tensor of shape [3] cannot be broadcast to indexing result of shape [2]");
  EXPECT_EQ(message_of([&] { core::index_put(counted(), {0}, core::ones({2})); }),
            "The expanded size of the tensor (3) must match the existing size (2) at non-singleton dimension 0.  "
            "Target sizes: [3].  Tensor sizes: [2]");
  EXPECT_EQ(message_of([&] { core::index_put(counted(), {counted() > 2.0}, core::ones({2})); }),
            "shape mismatch: value tensor of shape [2] cannot be broadcast to indexing result of shape [3]");
}

}  // namespace
