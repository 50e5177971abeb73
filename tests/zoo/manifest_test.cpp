#include "zoo/manifest/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "libcore/base/text.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Manifest, KnowsTheUsualModels) {
  for (const char* name :
       {"resnet50", "resnet18", "vgg16", "alexnet", "gpt2", "bert_base", "vit_b_16", "lenet5", "mlp", "t5_small"}) {
    EXPECT_TRUE(zoo::find_manifest(name).has_value()) << name;
  }
  EXPECT_GT(zoo::list_manifests().size(), 92u);
  EXPECT_FALSE(zoo::find_manifest("no_such_model").has_value());
}

TEST(Manifest, HoldsNamesShapesKindsVersionsAndTies) {
  auto resnet = zoo::find_manifest("resnet50");
  ASSERT_EQ(resnet->keys.size(), 320u);
  EXPECT_EQ(resnet->keys[0].key, "conv1.weight");
  EXPECT_EQ(*resnet->keys[0].shape, (core::Shape{64, 3, 7, 7}));
  EXPECT_EQ(resnet->keys[0].kind, ckpt::WantedKey::Kind::parameter);
  EXPECT_EQ(resnet->keys[5].key, "bn1.num_batches_tracked");
  EXPECT_EQ(resnet->keys[5].dtype, core::DType::i64);
  EXPECT_EQ(resnet->parameters, 25557032u);
  EXPECT_THAT(resnet->versions, Contains(std::pair<std::string, std::int64_t>("bn1", 2)));
  EXPECT_THAT(zoo::find_manifest("gpt2")->ties, ElementsAre(ElementsAre("transformer.wte.weight", "lm_head.weight")));
}

TEST(Manifest, FindsNamesHoweverTheyAreWritten) {
  for (const char* name : {"ResNet50", "timm/resnet50", "RESNET50"})
    EXPECT_EQ(zoo::find_manifest(name)->name, "resnet50") << name;
  EXPECT_EQ(zoo::find_manifest("bert-base-uncased")->name, "bert_base");
  EXPECT_EQ(zoo::find_manifest("meta-llama/Llama-3-8B")->name, "llama_3_8b_shape");
}

/// Their names end as those of models for tests do.
TEST(Manifest, KnowsPublishedModelsThatAreCalledSmall) {
  EXPECT_EQ(zoo::find_manifest("convnext_tiny")->keys.size(), 182u);
  EXPECT_EQ(zoo::find_manifest("Qwen/Qwen2-0.5B")->name, "qwen2_half_b_shape");
}

TEST(Manifest, SuggestsWhatWasMeant) {
  EXPECT_THAT(zoo::similar_names("resnet5"), Contains("resnet50"));
  EXPECT_THAT(zoo::similar_names("rensnet18"), Contains("resnet18"));
  EXPECT_THAT(zoo::similar_names("qqqqqqqqqqqqqqq"), IsEmpty());
  EXPECT_LE(zoo::similar_names("vit", 2).size(), 2u);
}

TEST(Manifest, IsSortedByName) {
  const auto& list = zoo::list_manifests();
  EXPECT_TRUE(std::is_sorted(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
  EXPECT_EQ(zoo::all_manifests().size(), list.size());
  for (std::size_t i = 0; i < list.size(); ++i)
    EXPECT_EQ(zoo::all_manifests()[i].keys.size(), list[i].tensors) << list[i].name;
}
