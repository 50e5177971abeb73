#include "zoo/rules/rule_packs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "libckpt/transform/glob.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/manifest/manifest.h"

using ckpt::Checkpoint;
using ckpt::Entry;
using ckpt::KeyList;
using ckpt::RulePack;
using ckpt::Value;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// The keys of a model as tensors without bytes.
Checkpoint file_of(const KeyList& model) {
  ckpt::Dict dict;
  for (const ckpt::WantedKey& key : model.keys) {
    Entry entry;
    entry.shape = *key.shape;
    entry.dtype = *key.dtype;
    dict.items.emplace_back(Value::text(key.key), Value::tensor(std::make_shared<const Entry>(std::move(entry))));
  }
  Checkpoint file;
  file.root = Value::dict(std::move(dict));
  return file;
}

/// "key shape", sorted.
std::set<std::string> keys_of(const Checkpoint& file) {
  std::set<std::string> out;
  for (const auto& [key, value] : file.root.as_dict().items) {
    out.insert(key.as_text() + " " + core::to_list(value.as_entry().shape));
  }
  return out;
}

Checkpoint apply(const Checkpoint& file, const RulePack& pack) {
  return ckpt::apply_rules(file, pack.rules);
}

RulePack pack(const char* name) {
  return *zoo::find_rule_pack(name);
}

std::vector<KeyList> models_of(const RulePack& pack) {
  std::vector<KeyList> out;
  for (std::string_view glob : core::split(pack.models, ' ')) {
    for (const KeyList& model : zoo::all_manifests()) {
      if (ckpt::glob_match(glob, model.name)) out.push_back(model);
    }
  }
  return out;
}

std::vector<ckpt::NamedShape> named(const Checkpoint& file) {
  std::vector<ckpt::NamedShape> out;
  for (const auto& [key, value] : file.root.as_dict().items) out.push_back({key.as_text(), value.as_entry().shape});
  return out;
}

}  // namespace

TEST(RulePacks, AreSortedAndFoundByName) {
  const std::vector<RulePack>& packs = zoo::rule_packs();
  EXPECT_TRUE(std::is_sorted(packs.begin(), packs.end(), [](auto& a, auto& b) { return a.name < b.name; }));
  for (const RulePack& each : packs) EXPECT_EQ(zoo::find_rule_pack(each.name), &each);
  EXPECT_EQ(zoo::find_rule_pack("no-such-pack"), nullptr);
  EXPECT_THAT(std::string(zoo::rule_pack_text("timm-vit")), HasSubstr("from = \"timm\""));
}

TEST(RulePacks, LeadThereAndBackForEveryModelOfTheirFamily) {
  for (const RulePack& each : zoo::rule_packs()) {
    // Of no listed model; golden_zoo_folders loads their files.
    if (each.models == "hf_beit_*" || each.models == "hf_deit_*") continue;
    std::vector<KeyList> models = models_of(each);
    EXPECT_FALSE(models.empty()) << each.name << " is for no model";
    if (each.from_key.empty()) continue;       // for use by name: says nothing of both sides
    if (each.name == "timm-hf-vit") continue;  // between two other projects: has a test of its own
    const RulePack turned = ckpt::turned_round(each);
    const bool ours_is_from = each.name == "gpt2-nanogpt";
    for (const KeyList& model : models) {
      Checkpoint file = file_of(model);
      Checkpoint other = apply(file, ours_is_from ? each : turned);
      EXPECT_NE(keys_of(other), keys_of(file)) << each.name << " " << model.name;
      EXPECT_EQ(keys_of(apply(other, ours_is_from ? turned : each)), keys_of(file)) << each.name << " " << model.name;
    }
  }
}

/// Packs between whole namings leave no key of the model as it was.
TEST(RulePacks, RenameEveryKeyOfTheirModels) {
  for (const char* name : {"hf-resnet", "hf-vit", "timm-vit", "timm-convnext", "timm-efficientnet", "timm-mobilenet-v2",
                           "timm-mobilenet-v3-large", "timm-mobilenet-v3-small", "timm-regnet"}) {
    for (const KeyList& model : models_of(pack(name))) {
      std::set<std::string> ours;
      for (const ckpt::WantedKey& key : model.keys) ours.insert(key.key);
      Checkpoint other = apply(file_of(model), ckpt::turned_round(pack(name)));
      for (const ckpt::NamedShape& key : named(other)) {
        const bool same = ours.contains(std::string(key.name));
        EXPECT_FALSE(same) << name << " leaves " << key.name << " of " << model.name;
      }
    }
  }
}

/// Keras has no counters of batches.
TEST(RulePacks, OfKerasTakeEveryWeight) {
  int packs = 0;
  for (const RulePack& each : zoo::rule_packs()) {
    if (each.from != "Keras") continue;
    ++packs;
    std::vector<KeyList> models = models_of(each);
    EXPECT_FALSE(models.empty()) << each.name;
    for (const KeyList& model : models) {
      Checkpoint file = file_of(model);
      Checkpoint keras = apply(file, ckpt::turned_round(each));
      for (const ckpt::NamedShape& key : named(keras)) {
        EXPECT_TRUE(key.name.starts_with("layers.") || key.name.ends_with(".num_batches_tracked")) << key.name;
      }
      EXPECT_EQ(keys_of(apply(keras, each)), keys_of(file)) << each.name << " " << model.name;
    }
  }
  EXPECT_EQ(packs, 25);
}

/// The sizes of a family that are equally deep have the same layers.
TEST(RulePacks, MayHaveOtherNames) {
  const RulePack* large = zoo::find_rule_pack("keras-convnext-large");
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(large->name, "keras-convnext-base");
  const std::vector<std::string> names = zoo::rule_pack_names();
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) EXPECT_NE(zoo::find_rule_pack(name), nullptr) << name;
  EXPECT_THAT(names, testing::Contains("keras-convnext-xlarge"));
  EXPECT_EQ(zoo::find_rule_pack(""), nullptr);
}

TEST(RulePacks, SayForWhichModelsThereAreNone) {
  EXPECT_THAT(zoo::why_no_rules("keras-resnet50v2"), HasSubstr("torchvision has no ResNet V2"));
  EXPECT_THAT(zoo::why_no_rules("keras-xception"), HasSubstr("torchvision has no Xception"));
  for (const std::string& name : zoo::rule_pack_names()) EXPECT_EQ(zoo::why_no_rules(name), "") << name;
}

TEST(RulePacks, FitTheirOwnSideAndNotTheOther) {
  for (const RulePack& each : zoo::rule_packs()) {
    if (each.from_key.empty()) continue;
    const bool ours_is_from = each.name == "gpt2-nanogpt";
    for (const KeyList& model : models_of(each)) {
      if (each.name == "timm-hf-vit") continue;
      Checkpoint file = file_of(model);
      EXPECT_EQ(ckpt::fits_from(each, named(file)).fits, ours_is_from) << each.name << " " << model.name;
      EXPECT_EQ(ckpt::fits_to(each, named(file)).fits, !ours_is_from) << each.name << " " << model.name;
      Checkpoint other = apply(file, ours_is_from ? each : ckpt::turned_round(each));
      EXPECT_EQ(ckpt::fits_from(each, named(other)).fits, !ours_is_from) << each.name << " " << model.name;
    }
  }
}

/// Of a family, one pack alone takes a file: MobileNets and EfficientNets of timm begin alike.
TEST(RulePacks, OneAloneLeadsFromAFileToItsModel) {
  for (const RulePack& each : zoo::rule_packs()) {
    if (each.from_key.empty() || each.to != "torchvision") continue;
    for (const KeyList& model : models_of(each)) {
      Checkpoint file = file_of(model), other = apply(file, ckpt::turned_round(each));
      for (const RulePack& rival : zoo::rule_packs()) {
        if (rival.from_key.empty() || rival.name == each.name) continue;
        const bool fits = ckpt::fits_from(rival, named(other)).fits && ckpt::fits_to(rival, named(file)).fits;
        EXPECT_FALSE(fits) << rival.name << " takes a file of " << each.name << " to " << model.name;
      }
    }
  }
}

TEST(RulePacks, FromTimmToHuggingFaceIsTheWayOverTorchvision) {
  Checkpoint ours = file_of(*zoo::find_manifest("vit_b_16"));
  Checkpoint timm = apply(ours, ckpt::turned_round(pack("timm-vit")));
  Checkpoint face = apply(ours, ckpt::turned_round(pack("hf-vit")));
  EXPECT_EQ(keys_of(apply(timm, pack("timm-hf-vit"))), keys_of(face));
  EXPECT_EQ(keys_of(apply(face, ckpt::turned_round(pack("timm-hf-vit")))), keys_of(timm));
}

TEST(RulePacks, AFileOfTheBareModelGetsThePrefixFirst) {
  Checkpoint face = apply(file_of(*zoo::find_manifest("vit_b_16")), ckpt::turned_round(pack("hf-vit")));
  ckpt::Dict bare;
  for (const auto& [key, value] : face.root.as_dict().items) {
    if (key.as_text().starts_with("vit.")) bare.items.emplace_back(Value::text(key.as_text().substr(4)), value);
  }
  Checkpoint file;
  file.root = Value::dict(std::move(bare));
  ckpt::Rules rules = ckpt::rules_for(pack("hf-vit"), named(file));
  std::set<std::string> keys = keys_of(ckpt::apply_rules(file, rules));
  EXPECT_TRUE(keys.contains("encoder.layers.encoder_layer_11.self_attention.in_proj_weight [2304, 768]"));
  EXPECT_EQ(keys.size(), 150u);
}

TEST(RulePacks, RefuseAFileWithOtherNames) {
  Checkpoint ours = file_of(*zoo::find_manifest("vit_b_16"));
  try {
    ckpt::rules_for(pack("timm-vit"), named(ours));
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::key);
    EXPECT_STREQ(error.what(),
                 "the rules 'timm-vit' take names of timm, such as 'blocks.0.attn.qkv.weight', and the file has none; "
                 "its names are those of torchvision already");
  }
  Checkpoint nano = apply(file_of(*zoo::find_manifest("gpt2")), pack("gpt2-nanogpt"));
  EXPECT_THROW(ckpt::rules_for(pack("gpt2-nanogpt"), named(nano)), core::Error);
}

TEST(ParseRulePack, ReadsTheTableAndTheRules) {
  RulePack read = ckpt::parse_rule_pack(
      "[about]\nfrom = \"a\"\nto = \"b\"\nfrom_key = \"x.*\"\nto_key = \"y.*\"\nfrom_prefix = \"m.\"\n"
      "from_shape = [1, 3]\nnote = \"n\"\n[[rule]]\nrename = \"x.*\"\nto = \"y.*\"\n",
      "mine");
  EXPECT_EQ(read.name, "mine");
  EXPECT_EQ(read.from_prefix, "m.");
  EXPECT_THAT(read.from_shape, ElementsAre(1, 3));
  EXPECT_EQ(read.note, "n");
  ASSERT_EQ(read.rules.size(), 1u);
  RulePack turned = ckpt::turned_round(read);
  EXPECT_EQ(turned.from, "b");
  EXPECT_EQ(turned.to_prefix, "m.");
  EXPECT_THAT(turned.to_shape, ElementsAre(1, 3));
  EXPECT_TRUE(turned.backwards);
  EXPECT_EQ(turned.rules[0].names[0].first, "y.*");
}

TEST(ParseRulePack, RefusesATableThatIsNotOne) {
  const std::string rule = "[[rule]]\nrename = \"x\"\nto = \"y\"\n";
  auto message = [&](const std::string& about) {
    try {
      ckpt::parse_rule_pack(about + rule, "mine");
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::ErrorCode::usage);
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(""), "mine: has no table [about]");
  EXPECT_EQ(message("[about]\nfrom = \"a\"\n"), "mine: the table 'about' has no 'to'");
  EXPECT_EQ(message("[about]\nfrom = \"a\"\nto = \"b\"\nfrm = \"c\"\n"),
            "mine: the table 'about' has an unknown field 'frm'");
  EXPECT_EQ(message("[about]\nfrom = 3\nto = \"b\"\n"), "mine: the table 'about' has a 'from' that is not text");
  EXPECT_EQ(message("[about]\nfrom = \"a\"\nto = \"b\"\nfrom_key = \"c\"\n"),
            "mine: the table 'about' has one of 'from_key' and 'to_key' alone");
  EXPECT_EQ(message("[about]\nfrom = \"a\"\nto = \"b\"\nfrom_shape = [1]\n"),
            "mine: the table 'about' has a 'from_shape' that is not a pair of numbers");
}
