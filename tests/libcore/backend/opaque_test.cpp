// Logical devices whose memory the host cannot touch: that they catch what they are for, and that the runtime works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "libcore/backend/cpu/cpu_backend.h"
#include "libcore/backend/op_tables.h"
#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/backend/opaque/opaque_tables.h"
#include "libcore/core.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"

namespace {

using core::Device;
using core::DType;
using core::Tensor;
using test::message_of;
using testing::HasSubstr;

class Opaque : public testing::Test {
 protected:
  void SetUp() override { core::set_opaque_devices(2); }
  void TearDown() override { core::set_logical_devices(0); }
  static Tensor there(std::initializer_list<double> values, const char* device = "cuda:0") {
    return core::from_values(std::vector<double>(values)).to(Device(device), DType::f32);
  }
};

/// cuda:0's kernel of negation on these two arrays.
void negate(void* out, const void* in) {
  core::UnaryParams params{out, in, {}, {}};
  params.loop.ndim = 1;
  params.loop.numel = params.loop.sizes[0] = 2;
  params.loop.strides[0][0] = params.loop.strides[1][0] = 1;
  core::backend_for("cuda:0").ops().elementwise->unary.at(core::UnaryOp::neg, DType::f32)(params);
}

TEST_F(Opaque, SayWhatTheyAre) {
  EXPECT_EQ(core::cuda::device_name(1), "logical, opaque host memory");
  EXPECT_FALSE(core::backend_for("cuda:0").is_host_memory());
}

using OpaqueDeathTest = Opaque;

TEST_F(OpaqueDeathTest, AHostThatReadsIsNamed) {
  const Tensor x = there({1, 2}, "cuda:1");
  EXPECT_DEATH(std::printf("%g", static_cast<double>(x.data<float>()[1])), "the host touched the memory of cuda:1");
}

TEST_F(OpaqueDeathTest, AHostThatWritesIsNamed) {
  const Tensor x = there({1, 2});
  EXPECT_DEATH(x.mutable_data<float>()[0] = 3, "the host touched the memory of cuda:0");
}

TEST_F(Opaque, KernelsRefuseHostMemory) {
  const Tensor x = there({1, 2}), host = core::ones({2});
  EXPECT_EQ(message_of([&] { negate(x.mutable_raw_data(), host.raw_data()); }),
            "kernel unary.neg.float32: 'in' is host memory where memory of cuda:0 is needed");
}

TEST_F(Opaque, KernelsRefuseMemoryOfAnotherDevice) {
  const Tensor x = there({1, 2}), other = there({1, 2}, "cuda:1");
  EXPECT_EQ(message_of([&] { negate(other.mutable_raw_data(), x.raw_data()); }),
            "kernel unary.neg.float32: 'out' is memory of cuda:1 in a kernel of cuda:0");
}

TEST_F(Opaque, CopiesRefuseWhatIsOnTheWrongSide) {
  const Tensor x = there({1, 2}), host = core::ones({2});
  core::Backend& backend = core::backend_for("cuda:0");
  EXPECT_EQ(message_of([&] { backend.copy_to_host(host.mutable_raw_data(), host.raw_data(), 8); }),
            "a copy on cuda:0 was given memory of the host");
  EXPECT_THAT(message_of([&] { backend.copy_from_host(x.mutable_raw_data(), x.raw_data(), 8); }),
              HasSubstr("was given memory of cuda:0 for the host's"));
}

TEST_F(Opaque, NumbersGoAlongWithTheirKernel) {
  const Tensor x = there({1, 2, 3});
  EXPECT_EQ((2 * x + 1).to_vector<float>(), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ((x > 2).to_vector<bool>(), (std::vector<bool>{false, false, true}));
  EXPECT_EQ(x.masked_fill(x > 2, 9).to_vector<float>(), (std::vector<float>{1, 2, 9}));
  EXPECT_EQ(core::nonzero(x > 1).cpu().to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2}));
}

TEST_F(Opaque, FreedMemoryIsTakenAgain) {
  const void* first = there({1, 2}).raw_data();
  EXPECT_EQ(there({1, 2}).raw_data(), first);
  core::cuda::empty_cache();
  EXPECT_EQ(core::cuda::memory_allocated("cuda:0"), 0U);
}

TEST_F(Opaque, MemoryEndsWhereItsLimitIs) {
  core::set_memory_limit("cuda:0", 4 << 20);
  EXPECT_THROW(core::empty({8 << 20}, {.device = Device("cuda:0")}), core::OutOfMemoryError);
}

TEST_F(Opaque, DrawWhatLogicalDevicesDraw) {
  core::manual_seed(3);
  const std::vector<float> opaque = core::randn({5}, {.device = Device("cuda:0")}).to_vector<float>();
  core::set_logical_devices(1);
  core::manual_seed(3);
  EXPECT_EQ(core::randn({5}, {.device = Device("cuda:0")}).to_vector<float>(), opaque);
}

TEST_F(Opaque, CallsAreCounted) {
  const Tensor x = there({1, 2});
  const auto before = core::opaque_calls();
  x.mul(x);
  auto after = core::opaque_calls();
  EXPECT_EQ(after["binary.mul.float32"],
            before.contains("binary.mul.float32") ? before.at("binary.mul.float32") + 1 : 1);
}

TEST(OpaqueSlots, AreThoseOfAFileAlone) {
  const test::TempDir folder;
  const std::string path = (folder.path() / "slots").string();
  test::write_file(path,
                   "# what a small device has\nmove.4\nconvert.float64.float32  # for there()\nunary.neg.float32\n");
  ::setenv("CORE_OPAQUE_SLOTS", path.c_str(), 1);
  core::set_opaque_devices(1);
  {
    const Tensor x = core::ones({2}).to(Device("cuda:0"));
    EXPECT_EQ(x.neg().to_vector<float>(), (std::vector<float>{-1, -1}));
    EXPECT_EQ(message_of([&] { x.exp(); }), "\"exp\" not implemented for 'Float' on cuda:0");
    EXPECT_EQ(message_of([&] { core::layer_norm(x, {2}); }), "\"layer_norm\" not implemented for 'Float' on cuda:0");
  }
  test::write_file(path, "unary.nag.float32\n");
  EXPECT_THAT(message_of([] { core::set_opaque_devices(1); }), HasSubstr("unary.nag.float32': no such slot"));
  ::unsetenv("CORE_OPAQUE_SLOTS");
  core::set_logical_devices(0);
}

/// Three steps of an optimizer from the same start.
template <class Make>
std::vector<float> after_steps(const char* device, Make make) {
  const Tensor p = core::from_values(std::vector<float>{1, -2, 3}).to(Device(device)).requires_grad_();
  auto optimizer = make(std::vector<Tensor>{p});
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    (p * p * p).sum().backward();
    optimizer.step();
  }
  return p.detach().to_vector<float>();
}

template <class Make>
void expect_same_steps(Make make) {
  EXPECT_THAT(after_steps("cuda:0", make), testing::Pointwise(testing::FloatNear(1e-5F), after_steps("cpu", make)));
}

TEST_F(Opaque, OptimizersStepAsOnTheCpu) {
  expect_same_steps([](std::vector<Tensor> p) {
    return core::SGD(p, {.lr = 0.01, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  });
  expect_same_steps(
      [](std::vector<Tensor> p) { return core::Adam(p, {.lr = 0.1, .amsgrad = true, .maximize = true}); });
  expect_same_steps([](std::vector<Tensor> p) { return core::AdamW(p, {.lr = 0.1, .weight_decay = 0.1}); });
  expect_same_steps(
      [](std::vector<Tensor> p) { return core::RMSprop(p, {.lr = 0.1, .momentum = 0.5, .centered = true}); });
  expect_same_steps([](std::vector<Tensor> p) { return core::Adagrad(p, {.lr = 0.1, .weight_decay = 0.1}); });
  expect_same_steps([](std::vector<Tensor> p) { return core::Adadelta(p, {.lr = 0.5}); });
}

TEST_F(Opaque, BernoulliDrawsByTensor) {
  core::manual_seed(0);
  const Tensor p = there({0, 1, 0, 1});
  EXPECT_EQ(core::bernoulli(p).to_vector<float>(), (std::vector<float>{0, 1, 0, 1}));
}

TEST_F(Opaque, PinnedTensorsMove) {
  const Tensor pinned = core::pin_memory(core::arange(4));
  EXPECT_EQ(pinned.to(Device("cuda:1")).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 1, 2, 3}));
}

}  // namespace
