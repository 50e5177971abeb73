// Normalisations of f16 and bf16 by f32 parameters, as mixed precision has them, and what is refused.
#include <gtest/gtest.h>

#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/base/error.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/libcore/backend/cuda/emulated_tables.h"

namespace core {
namespace {

class NormOnDevice : public testing::Test {
 protected:
  void SetUp() override { set_opaque_devices(1, test::emulated_tables()); }
  void TearDown() override { set_logical_devices(0); }
};

Tensor leaf(const Shape& sizes, Device device, DType dtype) {
  const Tensor x = (arange(0, sizes.numel()) * 0.37).sin().reshape(sizes).to(device, dtype);
  return x.detach().requires_grad_();
}

struct Results {
  Tensor y, x_grad, w_grad, b_grad;
};

/// `norm` of x by parameters of `parameters`, and gradients, on the host in f32.
template <class Norm>
Results run(Device device, DType data, DType parameters, std::int64_t count, const Norm& norm) {
  const Tensor x = leaf({4, 6, 5}, device, data);
  const Tensor w = leaf({count}, device, parameters), b = leaf({count}, device, parameters);
  const Tensor y = norm(x, w, b);
  y.to(DType::f32).square().sum().backward();
  EXPECT_EQ(y.dtype(), data);
  EXPECT_EQ(x.grad().dtype(), data);
  EXPECT_EQ(w.grad().dtype(), parameters);
  const auto home = [](const Tensor& t) { return t.detach().to(Device(), DType::f32); };
  return {home(y), home(x.grad()), home(w.grad()), home(b.grad())};
}

template <class Norm>
void compare(std::int64_t count, const Norm& norm) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Results found = run(Device("cuda:0"), dtype, DType::f32, count, norm);
    const Results wanted = run(Device(), DType::f32, DType::f32, count, norm);
    const CloseOptions near{.rtol = 0.05, .atol = 0.12};
    EXPECT_TRUE(allclose(found.y, wanted.y, near));
    EXPECT_TRUE(allclose(found.x_grad, wanted.x_grad, near));
    EXPECT_TRUE(allclose(found.w_grad, wanted.w_grad, near));
    EXPECT_TRUE(allclose(found.b_grad, wanted.b_grad, near));
  }
}

TEST_F(NormOnDevice, LayerNormTakesF32Parameters) {
  compare(5, [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return layer_norm(x, {5}, {.weight = w, .bias = b});
  });
}

TEST_F(NormOnDevice, BatchNormTakesF32Parameters) {
  compare(6, [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return batch_norm(x, {.weight = w, .bias = b, .training = true});
  });
}

TEST_F(NormOnDevice, GroupNormTakesF32Parameters) {
  compare(6,
          [](const Tensor& x, const Tensor& w, const Tensor& b) { return group_norm(x, 2, {.weight = w, .bias = b}); });
}

std::string refusal(DType data, DType weight, DType bias) {
  try {
    layer_norm(ones({2, 3}, {.dtype = data}), {3},
               {.weight = ones({3}, {.dtype = weight}), .bias = ones({3}, {.dtype = bias})});
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST(NormTypes, OfOtherPairsAreRefused) {
  EXPECT_EQ(refusal(DType::f32, DType::f64, DType::f64),
            "mixed dtype (CPU): expect parameter to have scalar type of Float");
  EXPECT_EQ(refusal(DType::f64, DType::f32, DType::f32), "mixed dtype (CPU): all inputs must share same datatype.");
  EXPECT_EQ(refusal(DType::f32, DType::f32, DType::f64), "expected scalar type Float but found Double");
}

}  // namespace
}  // namespace core
