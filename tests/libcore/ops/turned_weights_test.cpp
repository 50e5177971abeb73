// Linear layers without gradients keep their weight turned while it stays as it is (raw/turned_weights.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/raw/turned_weights.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace {

using core::Tensor;

struct Layer {
  Tensor x, weight, bias;
  Tensor operator()() const { return core::linear(x, weight, bias); }
};

Layer layer_of(std::int64_t batch, std::int64_t in, std::int64_t out) {
  return {core::randn({batch, in}), core::randn({out, in}), core::randn({out})};
}

/// The same without any memory of earlier calls.
Tensor fresh(const Layer& layer) {
  return Layer{layer.x, layer.weight.clone(), layer.bias}();
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::equal(a.data<float>(), a.data<float>() + a.numel(), b.data<float>());
}

TEST(TurnedWeights, GiveTheBitsOfTheFirstCall) {
  const core::NoGradGuard no_history;
  core::manual_seed(3);
  for (std::int64_t batch = 1; batch < 18; ++batch) {
    for (const auto& [in, out] : std::vector<std::pair<std::int64_t, std::int64_t>>{{64, 64}, {13, 9}, {100, 33}}) {
      const Layer layer = layer_of(batch, in, out);
      const Tensor first = layer();
      for (int again = 0; again < 3; ++again) {
        ASSERT_TRUE(same_bits(layer(), first)) << batch << " rows, " << in << " to " << out;
      }
    }
  }
}

TEST(TurnedWeights, AreMadeAtTheSecondCallAndNotOfLentMemory) {
  const Tensor weight = core::randn({3, 2});
  EXPECT_EQ(core::raw::turned_weight(weight), nullptr);
  const float* turned = core::raw::turned_weight(weight);
  ASSERT_NE(turned, nullptr);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(turned[i], weight.data<float>()[i % 3 * 2 + i / 3]);
  std::vector<float> bytes(6);
  const Tensor lent = core::from_blob(bytes.data(), {3, 2}, core::DType::f32);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(core::raw::turned_weight(lent), nullptr);
}

TEST(TurnedWeights, FollowEveryChange) {
  const core::NoGradGuard no_history;
  core::manual_seed(4);
  Layer layer = layer_of(8, 64, 64);
  const auto check = [&](const char* what) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(layer(), fresh(layer))) << what;
  };
  check("new");
  layer.weight.add_(1);
  check("added to");
  layer.weight.mutable_data<float>()[70] = 5;
  check("written through a pointer");
  layer.weight.select(0, 3).fill_(2);
  check("a view changed");
  layer.weight.set_data(core::randn({64, 64}));
  check("other memory");
  layer.weight = core::randn({128, 64}).slice(0, 64, 128);
  check("behind an offset");
}

TEST(TurnedWeights, EndWithTheirStorage) {
  const core::NoGradGuard no_history;
  core::manual_seed(5);
  for (int i = 0; i < 50; ++i) {  // the allocator gives the same block again
    const Layer layer = layer_of(8, 64, 64);
    const Tensor expected = fresh(layer);
    for (int again = 0; again < 3; ++again) ASSERT_TRUE(same_bits(layer(), expected)) << i;
  }
}

}  // namespace
