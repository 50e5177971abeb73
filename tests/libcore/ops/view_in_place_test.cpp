// Shapes in place, and what else became a method: values and errors of PyTorch 2.15.
#include <gtest/gtest.h>

#include "libcore/autograd/node.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/view.h"
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

TEST(ShapesInPlace, TheTensorItselfChanges) {
  Tensor x = counted();
  const Tensor shared = x.view({6});
  EXPECT_EQ(x.t_().sizes(), Shape({3, 2}));
  EXPECT_EQ(core::to_string(x), "tensor([[0., 3.],\n        [1., 4.],\n        [2., 5.]])");
  EXPECT_FALSE(x.is_contiguous());
  EXPECT_EQ(x.transpose_(0, 1).unsqueeze_(0).sizes(), Shape({1, 2, 3}));
  EXPECT_EQ(x.swapdims_(0, 2).sizes(), Shape({3, 2, 1}));
  EXPECT_EQ(x.squeeze_(2).sizes(), Shape({3, 2}));
  EXPECT_EQ(x.squeeze_(0).sizes(), Shape({3, 2}));
  EXPECT_EQ(core::to_string(x.as_strided_({2, 2}, {1, 3}, 1)), "tensor([[1., 4.],\n        [2., 5.]])");
  x.fill_(9);
  EXPECT_EQ(core::to_string(shared), "tensor([0., 9., 9., 3., 9., 9.])");
  EXPECT_EQ(counted().t_().version(), 1U);
}

TEST(ShapesInPlace, GradientsFollow) {
  const Tensor x = tensor({1.0, 2.0, 3.0}).requires_grad_();
  Tensor y = x * 2;
  y.unsqueeze_(0);
  EXPECT_EQ(y.grad_fn()->name(), "UnsqueezeBackward0");
  y.t_();
  (y * tensor({{1.0}, {10.0}, {100.0}})).sum().backward();
  EXPECT_EQ(core::to_string(x.grad()), "tensor([  2.,  20., 200.])");
  EXPECT_EQ(message_of([&] {
              Tensor leaf = x;
              leaf.t_();
            }),
            "a leaf Variable that requires grad is being used in an in-place operation.");
  Tensor view = (x * 2).view({3, 1});
  EXPECT_EQ(message_of([&] { view.t_(); }),
            "the shape of a view that takes part in a graph cannot be changed in place; use the operation without '_'");
}

TEST(ShapesInPlace, MemoryGrowsAndShrinks) {
  const Tensor x = counted();
  EXPECT_EQ(core::to_string(x.resize_({4})), "tensor([0., 1., 2., 3.])");
  EXPECT_EQ(core::to_string(x.resize_({3, 2})), "tensor([[0., 1.],\n        [2., 3.],\n        [4., 5.]])");
  x.resize_({10});
  EXPECT_EQ(core::to_string(x.narrow(0, 0, 6)), "tensor([0., 1., 2., 3., 4., 5.])");
  x.resize_as_(core::ones({2, 1}));
  EXPECT_EQ(x.sizes(), Shape({2, 1}));
  const Tensor shared = x.view({2});
  EXPECT_EQ(message_of([&] { x.resize_({100}); }), "memory that several tensors share cannot grow: [2, 1] to [100]");
  EXPECT_EQ(message_of([] { core::ones({2}).requires_grad_().resize_({3}); }),
            "cannot resize variables that require grad");
}

TEST(Methods, SecondNamesInPlace) {
  EXPECT_EQ(core::to_string(tensor({-1.0, 2.0}).absolute_().negative_()), "tensor([-1., -2.])");
  EXPECT_EQ(core::to_string(tensor({6.0, 4.0}).divide_(2).multiply_(tensor({3.0, 2.0})).subtract_(1)),
            "tensor([8., 3.])");
  EXPECT_EQ(core::to_string(tensor({1.0, 5.0}).clamp_max_(3).clamp_min_(2)), "tensor([2., 3.])");
  EXPECT_EQ(core::to_string(tensor({12, 18}).gcd_(tensor({8, 27}))), "tensor([4, 9])");
  EXPECT_EQ(core::to_string(tensor({1, 2}).bitwise_left_shift_(tensor({3, 1}))), "tensor([8, 4])");
  EXPECT_EQ(core::to_string(tensor({1.0, 5.0}).greater_(3)), "tensor([0., 1.])");
  EXPECT_EQ(message_of([] { core::ones({2}).float_power_(2); }),
            "the base given to float_power_ has dtype Float but the operation's result requires dtype Double");
  EXPECT_EQ(message_of([] { core::ones({2}, {.dtype = DType::i64}).polygamma_(1); }),
            "result type Float can't be cast to the desired output type Long");
}

TEST(Methods, PartsAndSums) {
  const Tensor x = counted();
  EXPECT_EQ(core::to_string(x.sum_to_size({3})), "tensor([3., 5., 7.])");
  EXPECT_EQ(core::to_string(x.sum_to_size({2, 1})), "tensor([[ 3.],\n        [12.]])");
  EXPECT_EQ(message_of([&] { x.sum_to_size({4}); }), "size {[4]} is not expandable to size {[2, 3]}.");
  EXPECT_EQ(message_of([&] { x.sum_to_size({1, 2, 3}); }), "size {[1, 2, 3]} is not expandable to size {[2, 3]}.");
  EXPECT_EQ(x.split_with_sizes({1, 2}, 1).at(1).sizes(), Shape({2, 2}));
  EXPECT_EQ(core::ones({2, 2, 4}).dsplit(2).at(1).sizes(), Shape({2, 2, 2}));
  EXPECT_EQ(message_of([&] { x.dsplit(2); }),
            "torch.dsplit requires a tensor with at least 3 dimension, but got a tensor with 2 dimensions!");
  EXPECT_EQ(core::to_string(x.as_strided_scatter(core::ones({2, 2}), {2, 2}, {1, 2})),
            "tensor([[1., 1., 1.],\n        [1., 4., 5.]])");
  EXPECT_EQ(core::to_string(tensor({0, 1, 1}).nonzero_static(3)), "tensor([[ 1],\n        [ 2],\n        [-1]])");
  EXPECT_EQ(message_of([] {
              tensor({0, 1}).nonzero_static(-1);
            }),
            "nonzero_static: 'size' must be an non-negative integer");
}

TEST(Methods, RowsReducedByIndex) {
  const Tensor x = counted();
  EXPECT_EQ(core::to_string(x.index_reduce(0, tensor({0, 0}), core::full({2, 3}, 3.0), "prod")),
            "tensor([[ 0.,  9., 18.],\n        [ 3.,  4.,  5.]])");
  EXPECT_EQ(core::to_string(x.index_reduce(1, tensor({0, 0}), core::full({2, 2}, 3.0), "mean", false)),
            "tensor([[3., 1., 2.],\n        [3., 4., 5.]])");
  EXPECT_EQ(message_of([&] {
              x.index_reduce(0, tensor({0}), core::ones({1, 3}), "sum");
            }),
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got sum.");
  const auto refusal = [&](const Tensor& to, const Tensor& at, const Tensor& from) {
    return message_of([&] { to.index_reduce(0, at, from, "amax"); });
  };
  EXPECT_EQ(refusal(x, tensor({0}), core::ones({1, 0})),
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = [2, "
            "3] source.shape = [1, 0]");
  EXPECT_EQ(refusal(core::ones({3, 0}), tensor({5}), core::ones({1, 0})), "index out of range in self");
  EXPECT_EQ(core::ones({3, 0}).index_reduce(0, tensor({2}), core::ones({1, 0}), "mean").sizes(), (core::Shape{3, 0}));
  x.index_reduce_(0, tensor({1}), core::full({1, 3}, 4.5), "amax");
  EXPECT_EQ(core::to_string(x), "tensor([[0.0000, 1.0000, 2.0000],\n        [4.5000, 4.5000, 5.0000]])");
}

TEST(Methods, Histogram) {
  const Tensor x = tensor({1.0, 2.0, 1.0, 4.0, 3.0});
  const auto [hist, edges] = core::histogram(x, 4, {.range = {{0.0, 4.0}}});
  EXPECT_EQ(core::to_string(hist), "tensor([0., 2., 1., 2.])");
  EXPECT_EQ(core::to_string(edges), "tensor([0., 1., 2., 3., 4.])");
  const auto weighted =
      core::histogram(x, tensor({0.0, 2.0, 4.0}), {.weight = tensor({1.0, 2.0, 3.0, 4.0, 5.0}), .density = true});
  EXPECT_EQ(core::to_string(weighted.hist), "tensor([0.1333, 0.3667])");
  EXPECT_EQ(core::to_string(core::histogram(tensor({5.0, 5.0}), 2).bin_edges), "tensor([4.5000, 5.0000, 5.5000])");
  EXPECT_EQ(message_of([&] { core::histogram(x, 0); }),
            "torch.histogram(): bins must be > 0, but got 0 for dimension 0");
  EXPECT_EQ(message_of([&] {
              core::histogram(x, 2, {.range = {{3.0, 1.0}}});
            }),
            "torch.histogramdd: min should not exceed max, but got min 3 max 1 for dimension 0");
  EXPECT_EQ(message_of([] {
              core::histogram(tensor({5.0, kNan}), 2);
            }),
            "torch.histogramdd: dimension 0's range [nan, nan] is not finite");
  EXPECT_EQ(message_of([&] { core::histogram(x, core::ones({2}, {.dtype = DType::f64})); }),
            "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype "
            "float and bins for dimension 0 with dtype double");
}

TEST(Methods, Facts) {
  EXPECT_TRUE(tensor({1}).is_nonzero());
  EXPECT_EQ(message_of([] {
              tensor({1, 2}).is_nonzero();
            }),
            "Boolean value of Tensor with more than one value is ambiguous");
  EXPECT_EQ(message_of([] { core::ones({0}).is_nonzero(); }), "Boolean value of Tensor with no values is ambiguous");
  const Tensor x = counted();
  EXPECT_TRUE(x.is_set_to(x.view({2, 3})) && !x.is_set_to(counted()) && x.is_same_size(counted()));
  EXPECT_TRUE(x.is_signed() && !core::ones({1}, {.dtype = DType::u8}).is_signed() && x.is_cpu());
  EXPECT_EQ(x.type(), "torch.FloatTensor");
  EXPECT_EQ(tensor({1}).type(), "torch.LongTensor");
  EXPECT_EQ(x[1].data_ptr(), x.data<float>() + 3);
  EXPECT_EQ(core::to_string(x.isreal().narrow(0, 0, 1)), "tensor([[True, True, True]])");
}

TEST(AsStrided, AsStridedStaysInItsMemory) {
  const Tensor x = core::zeros({2, 3});
  EXPECT_EQ(message_of([&] { x.as_strided({20}, {1}); }),
            "setStorage: sizes [20], strides [1], storage offset 0, and itemsize 4 requiring a storage size of 80 are "
            "out of bounds for storage of size 24");
  EXPECT_EQ(message_of([&] { x.as_strided_(core::Shape{2}, {1}, 5); }),
            "setStorage: sizes [2], strides [1], storage offset 5, and itemsize 4 requiring a storage size of 28 are "
            "out of bounds for storage of size 24");
  EXPECT_THAT(message_of([&] { x.as_strided_scatter(core::ones({2}), {2}, {7}); }),
              testing::HasSubstr("out of bounds for storage of size 24"));
  EXPECT_EQ(message_of([&] { x.as_strided({2}, {1}, -1); }), "Tensor: invalid storage offset -1");
  EXPECT_EQ(message_of([&] { x.as_strided({2}, {-1}); }),
            "as_strided: Negative strides are not supported at the moment, got strides: [-1]");
  EXPECT_EQ(message_of([&] { x.as_strided({2}, {1, 1}); }), "mismatch in length of strides and shape");
  EXPECT_EQ(message_of([&] {
              x.as_strided({std::int64_t{1} << 62, 4}, {4, 1});
            }),
            "Storage size calculation overflowed with sizes=[4611686018427387904, 4] and strides=[4, 1]");
  EXPECT_EQ(x.as_strided({0}, {1}, 50).numel(), 0);
}

TEST(ShapesInPlace, AnUndefinedTensorIsRefused) {
  EXPECT_EQ(message_of([] { Tensor().t_(); }), "Expected a proper Tensor but got None (or an undefined Tensor in C++)");
}

TEST(AsStrided, MemoryOfAlmost64BitsIsRefused) {
  EXPECT_EQ(message_of([] { core::zeros({(std::int64_t{1} << 62) - 2}); }), "Storage size calculation overflowed");
}

TEST(AsStrided, AsStridedOfARowReachesOtherRows) {
  const Tensor x = core::ones({2, 3}).requires_grad_();
  const Tensor row = (x * 1)[1];
  const Tensor before = row.as_strided({6}, {1}, 0);
  before.backward(core::arange(6, {.dtype = core::DType::f32}));
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 0, 0, 3, 4, 5}));
}

TEST(ShapesInPlace, TheNextNumberMovesWithTheFirstOne) {
  const Tensor a = tensor({1.0, 2.0, 3.0}).requires_grad_(), b = tensor({1.0, 3.0, 2.0}).requires_grad_();
  a.nextafter(b).sum().backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{0, 1, 1}));
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{0, 0, 0}));
}

TEST(ShapesInPlace, ComparisonsHaveNoSlope) {
  const Tensor x = core::ones({3}).requires_grad_();
  const Tensor y = x * 2, z = x * 2;
  y.greater_(1);
  z.le_(core::ones({3}));
  (y + z).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(y.grad_fn()->name(), "GtBackward0");
  EXPECT_EQ(z.grad_fn()->name(), "LeBackward1");
}

}  // namespace
