// Joining, splitting, turning, products: values and errors of PyTorch 2.15.
#include <gtest/gtest.h>

#include "libcore/ops/activation.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/sparse.h"
#include "libcore/ops/synonyms.h"
#include "libcore/optim/options.h"
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

TEST(ShapeOps, Joining) {
  EXPECT_EQ(core::to_string(core::hstack({tensor(1.0), tensor(2.0)})), "tensor([1., 2.])");
  EXPECT_EQ(core::to_string(core::hstack({counted(), counted()})),
            "tensor([[0., 1., 2., 0., 1., 2.],\n"
            "        [3., 4., 5., 3., 4., 5.]])");
  EXPECT_EQ(core::to_string(core::vstack({tensor({1.0}), tensor({2.0})})),
            "tensor([[1.],\n"
            "        [2.]])");
  EXPECT_EQ(core::to_string(core::dstack({tensor({1.0, 2.0}), tensor({3.0, 4.0})})),
            "tensor([[[1., 3.],\n"
            "         [2., 4.]]])");
  EXPECT_EQ(core::to_string(core::column_stack({tensor({1.0, 2.0}), counted()})),
            "tensor([[1., 0., 1., 2.],\n"
            "        [2., 3., 4., 5.]])");
  EXPECT_EQ(core::to_string(core::block_diag({tensor({{1, 2}}), tensor(3)})),
            "tensor([[1, 2, 0],\n"
            "        [0, 0, 3]])");
  EXPECT_EQ(core::to_string(core::cartesian_prod({tensor({1, 2}), tensor({3, 4, 5})})),
            "tensor([[1, 3],\n"
            "        [1, 4],\n"
            "        [1, 5],\n"
            "        [2, 3],\n"
            "        [2, 4],\n"
            "        [2, 5]])");
  EXPECT_EQ(core::to_string(core::combinations(tensor({1, 2, 3}))),
            "tensor([[1, 2],\n"
            "        [1, 3],\n"
            "        [2, 3]])");
  EXPECT_EQ(core::to_string(core::combinations(tensor({1, 2, 3}), 2, true)),
            "tensor([[1, 1],\n"
            "        [1, 2],\n"
            "        [1, 3],\n"
            "        [2, 2],\n"
            "        [2, 3],\n"
            "        [3, 3]])");
  EXPECT_EQ(core::to_string(core::combinations(tensor({1, 2, 3}), 0)), "tensor([], dtype=torch.int64)");
  EXPECT_EQ(message_of([&] { core::combinations(counted()); }), "Expect a 1D vector, but got shape [2, 3]");
  EXPECT_EQ(message_of([&] { core::hstack({}); }), "hstack expects a non-empty TensorList");
}

TEST(ShapeOps, Splitting) {
  EXPECT_EQ(core::to_string(core::tensor_split(core::arange(7), 3)[0]), "tensor([0, 1, 2])");
  EXPECT_EQ(core::to_string(core::tensor_split(core::arange(7), 3)[2]), "tensor([5, 6])");
  EXPECT_EQ(core::to_string(core::tensor_split(core::arange(7), Shape{1, 6})[1]), "tensor([1, 2, 3, 4, 5])");
  EXPECT_EQ(core::to_string(core::hsplit(core::arange(4), 2)[1]), "tensor([2, 3])");
  EXPECT_EQ(core::to_string(core::vsplit(counted(), 2)[1]), "tensor([[3., 4., 5.]])");
  EXPECT_EQ(message_of([&] { core::tensor_split(core::arange(7), 0); }),
            "number of sections must be larger than 0, got 0");
  EXPECT_EQ(message_of([&] { core::tensor_split(tensor(7), 2); }),
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  EXPECT_EQ(message_of([&] { core::hsplit(counted(), 2); }),
            "torch.hsplit attempted to split along dimension 1, but the size of the dimension 3 is not divisible by "
            "the split_size 2!");
  EXPECT_EQ(message_of([&] { core::vsplit(core::arange(3), 3); }),
            "torch.vsplit requires a tensor with at least 2 dimension, but got a tensor with 1 dimensions!");
}

TEST(ShapeOps, Views) {
  EXPECT_TRUE(core::movedim(core::zeros({2, 3, 4}), {0, 1}, {1, 0}).sizes() == Shape({3, 2, 4}));
  EXPECT_TRUE(core::movedim(core::zeros({2, 3, 4}), {2}, {0}).sizes() == Shape({4, 2, 3}));
  EXPECT_TRUE(core::squeeze(core::ones({1, 3, 1}), {0, 1}).sizes() == Shape({3, 1}));
  EXPECT_TRUE(core::atleast_3d(core::ones({3})).sizes() == Shape({1, 3, 1}));
  EXPECT_TRUE(core::atleast_3d(core::ones({3, 4})).sizes() == Shape({3, 4, 1}));
  EXPECT_EQ(core::to_string(core::matrix_transpose(counted())),
            "tensor([[0., 3.],\n"
            "        [1., 4.],\n"
            "        [2., 5.]])");
  EXPECT_EQ(core::to_string(core::ravel(counted().t())), "tensor([0., 3., 1., 4., 2., 5.])");
  EXPECT_EQ(message_of([&] {
              core::movedim(core::zeros({2, 3, 4}), {0, 1}, {1});
            }),
            "movedim: Invalid source or destination dims: source ([0, 1] dims) should contain the same number of dims "
            "as destination ([1] dims)");
  EXPECT_EQ(message_of([&] {
              core::movedim(core::zeros({2, 3, 4}), {0, 0}, {1, 2});
            }),
            "movedim: repeated dim in `source` ([0, 0])");
  EXPECT_EQ(message_of([&] {
              core::movedim(core::zeros({2, 3, 4}), {0, 1}, {1, 1});
            }),
            "movedim: repeated dim in `destination` ([1, 1])");
  EXPECT_EQ(message_of([&] { core::matrix_transpose(core::ones({3})); }),
            "tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.");
}

TEST(ShapeOps, Turning) {
  EXPECT_EQ(core::to_string(core::rot90(counted(), 1)),
            "tensor([[2., 5.],\n"
            "        [1., 4.],\n"
            "        [0., 3.]])");
  EXPECT_EQ(core::to_string(core::rot90(counted(), 2)),
            "tensor([[5., 4., 3.],\n"
            "        [2., 1., 0.]])");
  EXPECT_EQ(core::to_string(core::rot90(counted(), -1)),
            "tensor([[3., 0.],\n"
            "        [4., 1.],\n"
            "        [5., 2.]])");
  EXPECT_EQ(core::to_string(core::rot90(counted(), 1, {1, 0})),
            "tensor([[3., 0.],\n"
            "        [4., 1.],\n"
            "        [5., 2.]])");
  EXPECT_EQ(core::to_string(core::fliplr(counted())),
            "tensor([[2., 1., 0.],\n"
            "        [5., 4., 3.]])");
  EXPECT_EQ(core::to_string(core::flipud(counted())),
            "tensor([[3., 4., 5.],\n"
            "        [0., 1., 2.]])");
  EXPECT_EQ(message_of([&] {
              core::rot90(counted(), 1, {0, 0});
            }),
            "expected rotation dims to be different, but got dim0 = 0 and dim1 = 0");
  EXPECT_EQ(message_of([&] { core::rot90(counted(), 1, {0}); }), "expected total rotation dims == 2, but got dims = 1");
  EXPECT_EQ(message_of([&] { core::rot90(core::ones({3})); }), "expected total dims >= 2, but got total dims = 1");
  EXPECT_EQ(message_of([&] { core::fliplr(core::ones({3})); }), "Input must be >= 2-d.");
  EXPECT_EQ(message_of([&] { core::flipud(tensor(3)); }), "Input must be >= 1-d.");
}

TEST(ShapeOps, DiagonalsAndTriangles) {
  EXPECT_EQ(core::to_string(core::diag_embed(tensor({1.0, 2.0}), 1)),
            "tensor([[0., 1., 0.],\n"
            "        [0., 0., 2.],\n"
            "        [0., 0., 0.]])");
  EXPECT_EQ(core::to_string(core::diag_embed(counted(), 0, 0, 2)),
            "tensor([[[0., 0., 0.],\n"
            "         [3., 0., 0.]],\n"
            "\n"
            "        [[0., 1., 0.],\n"
            "         [0., 4., 0.]],\n"
            "\n"
            "        [[0., 0., 2.],\n"
            "         [0., 0., 5.]]])");
  EXPECT_EQ(core::to_string(core::diagflat(tensor({{1, 2}}), -1)),
            "tensor([[0, 0, 0],\n"
            "        [1, 0, 0],\n"
            "        [0, 2, 0]])");
  EXPECT_EQ(core::to_string(core::tril_indices(2, 3)),
            "tensor([[0, 1, 1],\n"
            "        [0, 0, 1]])");
  EXPECT_EQ(core::to_string(core::triu_indices(2, 3, 1)),
            "tensor([[0, 0, 1],\n"
            "        [1, 2, 2]])");
  EXPECT_EQ(core::to_string(core::vander(tensor({1, 2, 3}))),
            "tensor([[1, 1, 1],\n"
            "        [4, 2, 1],\n"
            "        [9, 3, 1]])");
  EXPECT_EQ(core::to_string(core::vander(tensor({1, 2, 3}), 2, true)),
            "tensor([[1, 1],\n"
            "        [1, 2],\n"
            "        [1, 3]])");
  EXPECT_EQ(message_of([&] { core::diag_embed(counted(), 0, 0, 0); }), "diagonal dimensions cannot be identical 0, 0");
  EXPECT_EQ(core::to_string(core::fill_diagonal_(core::zeros({2, 3}), 5)),
            "tensor([[5., 0., 0.],\n"
            "        [0., 5., 0.]])");
  EXPECT_EQ(core::to_string(core::fill_diagonal_(core::zeros({5, 2}), 5, true)),
            "tensor([[5., 0.],\n"
            "        [0., 5.],\n"
            "        [0., 0.],\n"
            "        [5., 0.],\n"
            "        [0., 5.]])");
}

TEST(ShapeOps, Products) {
  EXPECT_EQ(core::to_string(core::trace(counted())), "tensor(4.)");
  EXPECT_EQ(core::to_string(core::inner(counted(), counted())),
            "tensor([[ 5., 14.],\n"
            "        [14., 50.]])");
  EXPECT_EQ(core::to_string(core::inner(counted(), tensor(2.0))),
            "tensor([[ 0.,  2.,  4.],\n"
            "        [ 6.,  8., 10.]])");
  EXPECT_EQ(core::to_string(core::vdot(tensor({1.0, 2.0}), tensor({3.0, 4.0}))), "tensor(11.)");
  EXPECT_EQ(core::to_string(core::kron(tensor({1.0, 2.0}), counted())),
            "tensor([[ 0.,  1.,  2.,  0.,  2.,  4.],\n"
            "        [ 3.,  4.,  5.,  6.,  8., 10.]])");
  EXPECT_EQ(core::to_string(core::tensordot(counted(), counted())), "tensor(55.)");
  EXPECT_EQ(core::to_string(core::tensordot(counted(), counted(), {0}, {0})),
            "tensor([[ 9., 12., 15.],\n"
            "        [12., 17., 22.],\n"
            "        [15., 22., 29.]])");
  EXPECT_EQ(core::to_string(core::cross(counted(), tensor({{1.0, 0.0, 2.0}, {0.0, 1.0, 0.0}}))),
            "tensor([[ 2.,  2., -1.],\n"
            "        [-5.,  0.,  3.]])");
  EXPECT_EQ(core::to_string(core::addr(counted(), tensor({1.0, 2.0}), tensor({1.0, 0.0, 1.0}), 2, 3)),
            "tensor([[ 3.,  2.,  7.],\n"
            "        [12.,  8., 16.]])");
  EXPECT_EQ(core::to_string(core::addr(tensor({kNan}), core::ones({2}), core::ones({3}), 0)),
            "tensor([[1., 1., 1.],\n"
            "        [1., 1., 1.]])");
  EXPECT_EQ(core::to_string(core::addbmm(tensor(1.0), core::ones({3, 2, 2}), core::ones({3, 2, 2}))),
            "tensor([[7., 7.],\n"
            "        [7., 7.]])");
  EXPECT_EQ(core::to_string(core::matrix_power(tensor({{1.0, 2.0}, {3.0, 4.0}}), 3)),
            "tensor([[ 37.,  54.],\n"
            "        [ 81., 118.]])");
  EXPECT_EQ(core::to_string(core::matrix_power(tensor({{1.0, 2.0}, {3.0, 4.0}}), 0)),
            "tensor([[1., 0.],\n"
            "        [0., 1.]])");
  EXPECT_EQ(core::to_string(core::chain_matmul({tensor({{1.0, 2.0}, {3.0, 4.0}}), counted()})),
            "tensor([[ 6.,  9., 12.],\n"
            "        [12., 19., 26.]])");
}

TEST(ShapeOps, ProductErrors) {
  EXPECT_EQ(message_of([&] {
              core::trace(core::ones({2, 2, 2}));
            }),
            "trace: expected a matrix, but got tensor with dim 3");
  EXPECT_EQ(message_of([&] { core::inner(counted(), core::ones({2})); }),
            "inner() the last dimension must match on both input tensors but got shapes [2, 3] and [2]");
  EXPECT_EQ(message_of([&] { core::vdot(counted(), counted()); }), "1D tensors expected, but got 2D and 2D tensors");
  EXPECT_EQ(message_of([&] { core::tensordot(counted(), counted(), 3); }),
            "tensordot expects dims < ndim_a or ndim_b, but got dims=3");
  EXPECT_EQ(message_of([&] { core::tensordot(counted(), counted(), 1); }),
            "contracted dimensions need to match, but first has size 3 in dim -1 and second has size 2 in dim 0");
  EXPECT_EQ(message_of([&] { core::tensordot(counted(), counted(), {0}, {1}); }),
            "contracted dimensions need to match, but first has size 2 in dim 0 and second has size 3 in dim 1");
  EXPECT_EQ(message_of([&] {
              core::tensordot(counted(), counted(), {0, 1}, {1});
            }),
            "both dimension lists should have same length");
  EXPECT_EQ(message_of([&] { core::cross(core::ones({2}), core::ones({2})); }),
            "linalg.cross: inputs dimension -1 must have length 3. Got 2 and 2");
  EXPECT_EQ(message_of([&] {
              core::cross(core::ones({3}), core::ones({2, 3}));
            }),
            "linalg.cross: inputs must have the same number of dimensions.");
  EXPECT_EQ(message_of([&] {
              core::addr(counted(), core::ones({2, 1}), core::ones({3}));
            }),
            "addr: Expected 1-D argument vec1, but got 2-D");
  EXPECT_EQ(message_of([&] { core::matrix_power(counted(), 2); }),
            "linalg.matrix_power: A must be batches of square matrices, but they are 2 by 3 matrices");
}

TEST(Synonyms, AreTheOperationsTheyStandFor) {
  const Tensor x = test::counted();
  EXPECT_TRUE(core::multiply(x, 2).equal(x * 2));
  EXPECT_TRUE(core::subtract(x, x).equal(core::zeros({2, 3})));
  EXPECT_TRUE(core::less_equal(x, 2).equal(core::le(x, 2)));
  EXPECT_TRUE(core::clamp_min(x, 1).equal(core::clamp(x, 1)));
  EXPECT_TRUE(core::clamp_max(x, 1).equal(core::clamp(x, {}, 1)));
  EXPECT_TRUE(core::arctan2(x, x + 1).equal(core::atan2(x, x + 1)));
  EXPECT_EQ(core::tile(x, {2}).sizes(), (Shape{2, 6}));
  EXPECT_EQ(core::tile(x, {2, 1, 1}).sizes(), (Shape{2, 2, 3}));
  EXPECT_TRUE(core::msort(core::flip(x, {0})).equal(x));
  EXPECT_EQ(core::new_zeros(x.to_double(), {2}).dtype(), core::DType::f64);
  EXPECT_EQ(core::new_full(x, {1}, 3).item<float>(), 3);
}

}  // namespace
