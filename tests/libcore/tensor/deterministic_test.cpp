// The switch for reproducible runs. Expected texts and values are PyTorch's.
#include "libcore/tensor/deterministic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "libcore/base/warning.h"
#include "libcore/module/pooling.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/view.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/number_limits.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/message_of.h"

namespace {

using core::DType;
using core::Tensor;
using test::message_of;

class Deterministic : public testing::Test {
 protected:
  Deterministic() { core::use_deterministic_algorithms(true); }
  ~Deterministic() override {
    core::use_deterministic_algorithms(false);
    core::set_fill_uninitialized_memory(true);
  }
};

const char* const kEnd =
    " does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'. You can "
    "turn "
    "off determinism just for this operation, or you can use the 'warn_only=True' option, if that's acceptable for "
    "your "
    "application. You can also file an issue at https://github.com/pytorch/pytorch/issues to help us prioritize adding "
    "deterministic support for this operation.";

Tensor put_one(bool accumulate) {
  return core::put(core::zeros({4}), core::tensor({1}), core::ones({1}), accumulate);
}

Tensor unpooled(std::int64_t rank) {
  const core::Shape sizes(static_cast<std::size_t>(rank) + 2, 1);
  return core::max_unpool(core::ones(sizes), core::zeros(sizes, {.dtype = DType::i64}),
                          core::Shape(static_cast<std::size_t>(rank), 2));
}

TEST_F(Deterministic, RefusesWhatPyTorchRefuses) {
  EXPECT_EQ(message_of([] { put_one(false); }), std::string("put_") + kEnd);
  EXPECT_EQ(message_of([] { core::zeros({4}).put_(core::tensor({1}), core::ones({1})); }), std::string("put_") + kEnd);
  EXPECT_EQ(message_of([] { unpooled(1); }), std::string("max_unpooling2d_forward_out") + kEnd);
  EXPECT_EQ(message_of([] { unpooled(2); }), std::string("max_unpooling2d_forward_out") + kEnd);
  EXPECT_EQ(message_of([] { unpooled(3); }), std::string("max_unpooling3d_forward_out") + kEnd);
  EXPECT_EQ(put_one(true).sum().item<float>(), 1);
  core::use_deterministic_algorithms(false);
  EXPECT_EQ(put_one(false).sum().item<float>(), 1);
}

TEST_F(Deterministic, OrWarns) {
  core::use_deterministic_algorithms(true, true);
  std::string said;
  const auto before = core::set_warning_handler([&](const std::string& text) { said += text; });
  EXPECT_EQ(put_one(false).sum().item<float>(), 1);
  core::set_warning_handler(before);
  EXPECT_EQ(said,
            "put_ does not have a deterministic implementation, but you set "
            "'torch.use_deterministic_algorithms(True, warn_only=True)'. You can file an issue at "
            "https://github.com/pytorch/pytorch/issues to help us prioritize adding deterministic support for this "
            "operation.");
}

TEST_F(Deterministic, FillsWhatIsLeftUnwritten) {
  EXPECT_TRUE(core::all(core::isnan(core::empty({3}))).item<bool>());
  EXPECT_TRUE(core::all(core::isnan(core::empty({3}, {.dtype = DType::bf16}))).item<bool>());
  EXPECT_TRUE(core::all(core::isnan(core::empty_like(core::ones({3})))).item<bool>());
  EXPECT_TRUE(core::all(core::isnan(core::ones({3}).new_empty({2}))).item<bool>());
  EXPECT_TRUE(core::all(core::isnan(core::empty_strided({2, 2}, {3, 1}))).item<bool>());
  for (const DType dtype : {DType::u8, DType::i8, DType::i16, DType::i32, DType::i64}) {
    const auto most = static_cast<std::int64_t>(core::iinfo(dtype).max);
    EXPECT_TRUE(core::all(core::eq(core::empty({3}, {.dtype = dtype}), most)).item<bool>()) << core::name(dtype);
  }
  EXPECT_TRUE(core::all(core::empty({3}, {.dtype = DType::boolean})).item<bool>());
  const Tensor grown = core::ones({2});
  grown.resize_({4});
  EXPECT_EQ(core::isnan(grown).sum().item<std::int64_t>(), 2);
  EXPECT_EQ(grown.slice(0, 0, 2).sum().item<float>(), 2);
  EXPECT_EQ(core::empty({0}).numel(), 0);
  EXPECT_EQ(core::empty({3}, {.device = core::Device("meta")}).numel(), 3);
}

TEST_F(Deterministic, FillsNothingWhereThatIsOff) {
  core::set_fill_uninitialized_memory(false);
  EXPECT_FALSE(core::fill_uninitialized_memory());
  // As much memory comes from the system, full of zeros; floats are NaN in debug builds all the same.
  constexpr std::int64_t kMany = 1 << 23;
  EXPECT_EQ(core::empty({kMany}, {.dtype = DType::i64}).select(0, kMany - 1).item<std::int64_t>(), 0);
}

TEST_F(Deterministic, HasAModeInOneWord) {
  EXPECT_TRUE(core::are_deterministic_algorithms_enabled());
  EXPECT_EQ(core::get_deterministic_debug_mode(), 2);
  core::set_deterministic_debug_mode("warn");
  EXPECT_TRUE(core::is_deterministic_algorithms_warn_only_enabled());
  EXPECT_EQ(core::get_deterministic_debug_mode(), 1);
  core::set_deterministic_debug_mode("default");
  EXPECT_FALSE(core::are_deterministic_algorithms_enabled());
  EXPECT_FALSE(core::is_deterministic_algorithms_warn_only_enabled());
  EXPECT_EQ(message_of([] { core::set_deterministic_debug_mode("x"); }),
            "invalid value of debug_mode, expected one of `default`, `warn`, `error`, but got x");
  EXPECT_EQ(message_of([] { core::set_deterministic_debug_mode(3); }),
            "invalid value of debug_mode, expected 0, 1, or 2, but got 3");
}

}  // namespace
