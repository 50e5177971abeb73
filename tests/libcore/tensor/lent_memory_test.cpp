// Memory of the caller (from_blob), which changes behind the tensors that lie in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/packed_weights.h"
#include "libcore/tensor/random.h"

namespace {

using core::Shape;
using core::Tensor;

struct Layer {
  Shape image, weight;
  std::int64_t groups = 1;
};

/// Of each way in which a convolution without gradients may keep its weight in another order.
const std::vector<Layer> kLayers = {
    {{2, 24, 9, 7}, {40, 24, 1, 1}},   {{1, 64, 14, 14}, {64, 64, 3, 3}},  {{1, 3, 16, 16}, {16, 3, 3, 3}},
    {{3, 24, 5, 6}, {24, 4, 3, 2}, 6}, {{2, 32, 8, 8}, {32, 1, 3, 3}, 32}, {{2, 5, 9, 9}, {7, 5, 3, 3}},
};

class LentMemory : public testing::TestWithParam<core::MemoryFormat> {};

TEST_P(LentMemory, AConvolutionSeesWhatTheCallerWroteIntoItsWeight) {
  const core::NoGradGuard no_history;
  core::manual_seed(5);
  for (const Layer& layer : kLayers) {
    const Tensor x = core::randn(layer.image).contiguous(GetParam());
    std::vector<float> bytes(static_cast<std::size_t>(layer.weight.numel()));
    const Tensor weight = core::from_blob(bytes.data(), layer.weight, core::DType::f32);
    const auto result = [&] { return core::conv2d(x, weight, {}, {.padding = 1, .groups = layer.groups}); };
    for (int turn = 0; turn < 3; ++turn) {
      const std::vector<float> values = core::randn({weight.numel()}).to_vector<float>();
      std::copy(values.begin(), values.end(), bytes.begin());
      const Tensor wanted = core::conv2d(x.to_double(), weight.to_double(), {}, {.padding = 1, .groups = layer.groups});
      const Tensor found = result();
      std::fill(bytes.begin(), bytes.end(), 1e6F);  // a result is that of the call, whenever it is read
      EXPECT_LT((found.to_double() - wanted).abs().max().item<double>(), 1e-3)
          << core::to_list(layer.weight) << ", turn " << turn;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, LentMemory,
                         testing::Values(core::MemoryFormat::contiguous, core::MemoryFormat::channels_last));

TEST(LentBytes, NothingIsKeptOfItNorOfItsViews) {
  std::vector<float> bytes(64);
  const auto makes = [](const Tensor& weight) {
    int made = 0;
    for (int i = 0; i < 3; ++i)
      core::packed_weights::find_or_pack(weight, "key", 4, [&](float* to) {
        std::fill_n(to, 4, 0.0F);
        ++made;
      });
    return made;
  };
  {
    const Tensor lent = core::from_blob(bytes.data(), {64}, core::DType::f32);
    EXPECT_EQ(makes(lent), 3);
    EXPECT_EQ(makes(lent.slice(0, 8, 16)), 3);
    EXPECT_EQ(makes(lent.clone()), 1);
  }
  EXPECT_EQ(makes(core::zeros({64})), 1);
}

}  // namespace
