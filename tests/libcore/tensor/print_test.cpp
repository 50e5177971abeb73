#include "libcore/tensor/print.h"

#include <gtest/gtest.h>

#include <sstream>

#include "libcore/backend/device_registry.h"
#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/ops.h"

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

TEST(Print, RefusesOptionsThatMakeNoSense) {
  EXPECT_THROW(core::set_print_options({.linewidth = 0}), core::Error);
  EXPECT_EQ(core::print_options().linewidth, 80);
}

}  // namespace
