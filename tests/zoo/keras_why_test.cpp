#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/analyze/why.h"
#include "libckpt/analyze/why/fix.h"
#include "libckpt/origin.h"
#include "libcore/base/text.h"
#include "zoo/manifest/manifest.h"
#include "zoo/rules/rule_packs.h"

using ckpt::Checkpoint;
using ckpt::Diagnosis;
using ckpt::KeyList;
using ckpt::RulePack;
using ckpt::Value;
using testing::HasSubstr;

namespace {

/// The keys that Keras has for a model, as tensors without bytes.
Checkpoint keras_file(const KeyList& model, const RulePack& pack) {
  ckpt::Dict dict;
  for (const ckpt::WantedKey& key : model.keys) {
    if (key.key.ends_with("num_batches_tracked")) continue;
    ckpt::Entry entry;
    entry.shape = *key.shape;
    entry.dtype = *key.dtype;
    dict.items.emplace_back(Value::text(key.key), Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry))));
  }
  Checkpoint file;
  file.root = Value::dict(std::move(dict));
  return ckpt::apply_rules(file, ckpt::turned_round(pack).rules);
}

Diagnosis diagnose(const Checkpoint& file, std::vector<KeyList> wanted) {
  ckpt::WhyOptions options;
  options.wanted = std::move(wanted);
  options.known = []() -> const std::vector<KeyList>& { return zoo::all_manifests(); };
  options.packs = zoo::rule_packs;
  return ckpt::why({&file, "net.weights.h5", {}, {}}, options);
}

std::string rules_of(const Diagnosis& d) {
  for (const ckpt::FixStep& step : d.plan.steps) {
    if (step.kind == ckpt::FixStep::Kind::rules) return step.at;
  }
  return "";
}

/// Calls `body` with every model that rules of Keras are for.
template <class Body>
void for_each_model(Body body) {
  for (const RulePack& pack : zoo::rule_packs()) {
    if (pack.from != "Keras") continue;
    for (std::string_view name : core::split(pack.models, ' ')) body(pack, *zoo::find_manifest(name));
  }
}

}  // namespace

TEST(WhyOfKeras, NamesTheRulesForTheModel) {
  for_each_model([](const RulePack& pack, const KeyList& model) {
    const Diagnosis d = diagnose(keras_file(model, pack), {model});
    EXPECT_TRUE(d.fixable()) << model.name;
    EXPECT_EQ(rules_of(d), pack.name) << model.name;
    EXPECT_EQ(d.after.keys, d.after.wanted) << model.name;
  });
}

TEST(WhyOfKeras, FindsTheModelByWhatRulesMakeOfIt) {
  for_each_model([](const RulePack& pack, const KeyList& model) {
    const Diagnosis d = diagnose(keras_file(model, pack), {});
    EXPECT_EQ(d.nearest, model.name) << pack.name;
    EXPECT_EQ(rules_of(d), pack.name);
  });
}

TEST(WhyOfKeras, TurnsTheRulesRoundForAModelOfKeras) {
  const RulePack& pack = *zoo::find_rule_pack("keras-vgg16");
  const KeyList model = *zoo::find_manifest("vgg16");
  const Checkpoint keras = keras_file(model, pack);
  const Diagnosis d =
      diagnose(ckpt::apply_rules(keras, pack.rules), {ckpt::key_list_of(keras, "vgg16.weights.h5", "")});
  EXPECT_TRUE(d.fixable());
  ASSERT_EQ(rules_of(d), "keras-vgg16");
  EXPECT_EQ(d.plan.steps.front().to, "backwards");
}

TEST(WhyOfKeras, TakesOtherDepthsForWhatTheyAre) {
  const KeyList model = *zoo::find_manifest("resnet50");
  const Checkpoint deeper = keras_file(*zoo::find_manifest("resnet101"), *zoo::find_rule_pack("keras-resnet101"));
  EXPECT_FALSE(diagnose(deeper, {model}).fixable());
}

TEST(WhyOfKeras, FixedFilesRememberWhatNamesDoNotSay) {
  const RulePack& pack = *zoo::find_rule_pack("keras-resnet50");
  const KeyList model = *zoo::find_manifest("resnet50");
  const Checkpoint keras = keras_file(model, pack);
  const Checkpoint fixed = ckpt::apply_fix(keras, diagnose(keras, {model}).plan);
  EXPECT_THAT(ckpt::origin_of(fixed), testing::StartsWith("from Keras by the rules keras-resnet50: outputs are equal"));
  const Diagnosis d = diagnose(fixed, {model});
  EXPECT_TRUE(d.names_match());
  EXPECT_THAT(d.notes,
              testing::Contains(HasSubstr("its weights were converted from Keras by the rules keras-resnet50")));
  const Checkpoint back = ckpt::apply_fix(fixed, diagnose(fixed, {ckpt::key_list_of(keras, "k.h5", "")}).plan);
  EXPECT_EQ(ckpt::origin_of(back), "");
}

TEST(WhyOfKeras, OtherNamesLeaveWhatAFileRemembers) {
  const KeyList model = *zoo::find_manifest("resnet50");
  const Checkpoint keras = keras_file(model, *zoo::find_rule_pack("keras-resnet50"));
  const Checkpoint fixed = ckpt::apply_fix(keras, diagnose(keras, {model}).plan);
  const RulePack& other = *zoo::find_rule_pack("hf-resnet");
  ASSERT_TRUE(other.note.empty());
  const Checkpoint wanted = ckpt::apply_rules(fixed, ckpt::turned_round(other).rules);
  const Diagnosis d = diagnose(fixed, {ckpt::key_list_of(wanted, "hf.pth", "")});
  ASSERT_EQ(rules_of(d), "hf-resnet");
  EXPECT_THAT(ckpt::origin_of(ckpt::apply_fix(fixed, d.plan)), HasSubstr("keras-resnet50"));
}
