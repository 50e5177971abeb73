// Pruning beside the masks that PyTorch 2.15 makes of the same weights and seeds; names, identity and errors.
#include "libcore/module/prune.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "libcore/module/linear.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"
#include "tests/support/message_of.h"

namespace {

namespace prune = core::prune;
using core::Tensor;
using Mask = std::vector<int>;
using test::message_of;

core::Linear layer() {
  core::Linear fc(4, 3);
  fc.weight.set_data(core::tensor({{0.5, -2.0, 3.0, -0.1}, {1.0, -1.5, 0.2, 4.0}, {-0.3, 0.7, -2.5, 0.05}}));
  fc.bias.set_data(core::tensor({1.0, -2.0, 0.5}));
  return fc;
}

Mask mask_of(core::Linear& fc, const std::string& name = "weight_mask") {
  Mask result;
  for (const float value : fc.buffer(name).to_vector<float>()) result.push_back(static_cast<int>(value));
  return result;
}

TEST(Prune, SmallestElementsAndThenHalfOfWhatIsLeft) {
  core::Linear fc = layer();
  prune::l1_unstructured(fc, "weight", 5);
  EXPECT_EQ(mask_of(fc), (Mask{0, 1, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0}));
  prune::l1_unstructured(fc, "weight", 0.5);
  EXPECT_EQ(mask_of(fc), (Mask{0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0}));
  core::Linear other = layer();
  const Tensor scores = fc.parameter("weight_orig").detach().t().reshape({3, 4});
  prune::l1_unstructured(other, "weight", 3, scores);
  EXPECT_EQ(mask_of(other), (Mask{1, 1, 1, 1, 1, 1, 1, 0, 1, 0, 1, 0}));
}

TEST(Prune, ChannelsBySeveralNorms) {
  core::Linear fc = layer();
  prune::ln_structured(fc, "weight", 1, 2, 0);
  EXPECT_EQ(mask_of(fc), (Mask{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}));
  prune::ln_structured(fc, "weight", 0.5, 1, 1);
  EXPECT_EQ(mask_of(fc), (Mask{0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0}));
  prune::ln_structured(fc, "weight", 0.5, std::numeric_limits<double>::infinity(), 0);
  EXPECT_EQ(mask_of(fc), (Mask{0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0}));
}

TEST(Prune, RandomOnesByTheSameNumbers) {
  core::manual_seed(0);
  core::Linear fc = layer();  // draws its first values too
  prune::random_unstructured(fc, "weight", 0.5);
  EXPECT_EQ(mask_of(fc), (Mask{1, 0, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0}));
  prune::random_unstructured(fc, "weight", 2);
  EXPECT_EQ(mask_of(fc), (Mask{1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0}));
  core::manual_seed(0);
  core::Linear other = layer();
  prune::random_structured(other, "weight", 2, 1);
  EXPECT_EQ(mask_of(other), (Mask{0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0}));
}

TEST(Prune, SeveralParametersTogether) {
  core::Linear fc = layer();
  prune::global_unstructured({{&fc, "weight"}, {&fc, "bias"}}, prune::Method::l1_unstructured, 6);
  EXPECT_EQ(mask_of(fc), (Mask{0, 1, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0}));
  EXPECT_EQ(mask_of(fc, "bias_mask"), (Mask{1, 1, 0}));
}

TEST(Prune, NamesIdentityAndTraining) {
  core::Linear fc = layer();
  const Tensor weight = fc.weight;
  core::SGD optimizer(fc.parameters(), 0.1);
  prune::custom_from_mask(fc, "weight", core::tensor({{1.0, 1.0, 1.0, 0.0}}).expand({3, 4}));
  std::vector<std::string> names;
  for (const auto& [name, tensor] : fc.state_dict()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"bias", "weight_orig", "weight_mask"}));
  EXPECT_TRUE(fc.parameter("weight_orig").is_same(weight));
  EXPECT_TRUE(prune::is_pruned(fc));
  fc(core::ones({1, 4})).sum().backward();
  optimizer.step();
  EXPECT_EQ(weight[0].to_vector<float>()[3], -0.1F);  // no gradient where the mask is 0
  EXPECT_FLOAT_EQ(weight[0].to_vector<float>()[0], 0.4F);
  fc(core::ones({1, 4}));
  EXPECT_EQ(fc.weight[0].to_vector<float>()[3], 0);
  prune::remove(fc, "weight");
  EXPECT_FALSE(prune::is_pruned(fc));
  EXPECT_TRUE(fc.weight.is_same(weight));
  EXPECT_EQ(weight[0].to_vector<float>()[3], 0);
  prune::identity(fc, "bias");
  EXPECT_EQ(mask_of(fc, "bias_mask"), (Mask{1, 1, 1}));
  core::Sequential net(fc);
  EXPECT_TRUE(prune::is_pruned(net));
}

TEST(Prune, Errors) {
  core::Linear fc = layer();
  EXPECT_EQ(message_of([&] { prune::l1_unstructured(fc, "weight", 1.5); }),
            "amount=1.5 should either be a float in the range [0, 1] or a non-negative integer");
  EXPECT_EQ(message_of([&] { prune::l1_unstructured(fc, "weight", -1); }),
            "amount=-1 should either be a float in the range [0, 1] or a non-negative integer");
  EXPECT_EQ(message_of([&] { prune::l1_unstructured(fc, "weight", 13); }),
            "amount=13 should be smaller than the number of parameters to prune=12");
  EXPECT_EQ(message_of([&] { prune::random_structured(fc, "weight", 4, 0); }),
            "amount=4 should be smaller than the number of parameters to prune=3");
  EXPECT_EQ(message_of([&] { prune::l1_unstructured(fc, "wt", 1); }), "'Linear' object has no attribute 'wt'");
  EXPECT_EQ(message_of([&] {
              prune::global_unstructured({{&fc, "weight"}, {nullptr, "weight"}}, prune::Method::l1_unstructured, 1);
            }),
            "'NoneType' object has no attribute 'weight'");
  EXPECT_EQ(message_of([&] { prune::ln_structured(fc, "bias", 1, 2, 0); }),
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape torch.Size([3]) "
            "with 1 dims");
  EXPECT_EQ(message_of([&] { prune::ln_structured(fc, "weight", 1, 2, 5); }),
            "Invalid index 5 for tensor of size torch.Size([3, 4])");
  EXPECT_EQ(message_of([&] { prune::custom_from_mask(fc, "weight", core::ones({2})); }),
            "default_mask shape torch.Size([3, 4]) must match self.mask shape torch.Size([2])");
  EXPECT_EQ(message_of([&] { prune::remove(fc, "weight"); }),
            "Parameter 'weight' of module Linear(in_features=4, out_features=3, bias=True) has to be pruned before "
            "pruning can be removed");
  EXPECT_FALSE(prune::is_pruned(fc));
}

}  // namespace
