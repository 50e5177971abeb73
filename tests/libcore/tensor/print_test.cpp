#include "libcore/tensor/print.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::DType;

TEST(Print, ShowsDeviceUnlessItIsTheCurrentDefault) {
  core::set_logical_devices(2);
  core::Tensor x = core::ones({2}).to(core::Device("cuda:1"));
  EXPECT_EQ(core::to_string(x), "tensor([1., 1.], device='cuda:1')");
  core::set_default_device("cuda");
  EXPECT_EQ(core::to_string(x), "tensor([1., 1.], device='cuda:1')");  // not the current one
  EXPECT_EQ(core::to_string(core::ones({2})), "tensor([1., 1.])");
  core::set_default_device("cpu");
}

TEST(Print, ShowsAnUndefinedTensorAsNone) {
  EXPECT_EQ(core::to_string(core::Tensor()), "None");
}

// Expected values: PyTorch 2.15.
TEST(Print, WritesComplexAndNarrowFloats) {
  float parts[] = {1.5F, -2.0F, 0.25F, 3.0F};
  core::Tensor complex = core::from_bytes(std::as_bytes(std::span(parts)), {2}, DType::c64);
  EXPECT_EQ(core::to_string(complex), "tensor([1.5000-2.j, 0.2500+3.j])");
  EXPECT_EQ(core::to_string(complex.slice(0, 0, 0)), "tensor([], dtype=torch.complex64)");
  std::uint8_t bits[] = {0x38, 0xc0};
  core::Tensor narrow = core::from_bytes(std::as_bytes(std::span(bits)), {2}, DType::f8_e4m3fn);
  EXPECT_EQ(core::to_string(narrow), "tensor([ 1., -2.], dtype=torch.float8_e4m3fn)");
}

TEST(Print, ReadsThroughStrides) {
  core::Tensor x = core::arange(6).view({2, 3}).t();
  EXPECT_EQ(core::to_string(x), "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])");
}

// What printf writes, exactly: ties go to even, and the binary value decides, not the decimal one.
TEST(Print, RoundsAsPrintf) {
  auto text = [](double value, double other) {
    return core::to_string(core::from_values(std::vector<double>{value, other}));
  };
  EXPECT_EQ(text(0.00005, 1.5), "tensor([5.0000e-05, 1.5000e+00], dtype=torch.float64)");
  EXPECT_EQ(text(0.03125, 1.5), "tensor([0.0312, 1.5000], dtype=torch.float64)");
  EXPECT_EQ(text(0.09375, -1.5), "tensor([ 0.0938, -1.5000], dtype=torch.float64)");
  EXPECT_EQ(text(0.99996, 0.5), "tensor([1.0000, 0.5000], dtype=torch.float64)");
  EXPECT_EQ(text(-0.0, 0.5), "tensor([-0.0000, 0.5000], dtype=torch.float64)");
  EXPECT_EQ(text(9.99996e5, 0.5), "tensor([1.0000e+06, 5.0000e-01], dtype=torch.float64)");
  EXPECT_EQ(text(1e300, -2e-300), "tensor([ 1.0000e+300, -2.0000e-300], dtype=torch.float64)");
  EXPECT_EQ(text(9.99999e99, 1.5), "tensor([1.0000e+100,  1.5000e+00], dtype=torch.float64)");
  EXPECT_EQ(text(123456789012.0, 3), "tensor([1.2346e+11, 3.0000e+00], dtype=torch.float64)");
  EXPECT_EQ(text(4503599627370497.0, 4503599627370496.0), "tensor([4.5036e+15, 4.5036e+15], dtype=torch.float64)");
}

TEST(Print, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(core::set_print_options({.linewidth = 0}), core::Error);
  EXPECT_EQ(core::print_options().linewidth, 80);
}

}  // namespace
