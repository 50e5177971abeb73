// What align takes for evidence: which pairs it makes of fresh weights, of copies and of swapped names, and what it
// leaves out because nothing decides.

#include <gtest/gtest.h>

#include "libckpt/analyze/align.h"
#include "libckpt/analyze/align_ordinals.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::AlignedTensors;
using ckpt::AlignResult;
using ckpt::Checkpoint;
using ckpt::Value;
using test::dict;
using Items = std::vector<std::pair<std::string, Value>>;

namespace {

Value shaped(const std::vector<float>& values, core::Shape shape) {
  ckpt::Entry entry = test::float_entry(values);
  entry.shape = std::move(shape);
  return Value::tensor(std::make_shared<ckpt::Entry>(std::move(entry)));
}

/// Values that no other seed gives.
Value filled(core::Shape shape, float seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = seed * 100 + static_cast<float>(i * i);
  return shaped(values, std::move(shape));
}

Value constant(core::Shape shape, float value) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()), value);
  return shaped(values, std::move(shape));
}

Checkpoint file(Items items) {
  return test::checkpoint(dict(std::move(items)));
}

Checkpoint applied(const Checkpoint& a, const std::string& rules) {
  return ckpt::apply_rules(a, ckpt::parse_rules(rules, "test"));
}

/// A norm as it is before training.
void add_norm(Items& items, const std::string& name) {
  items.emplace_back(name + ".weight", constant({4}, 1));
  items.emplace_back(name + ".bias", constant({4}, 0));
}

void add_linear(Items& items, const std::string& name, float seed) {
  items.emplace_back(name + ".weight", filled({4, 3}, seed));
  items.emplace_back(name + ".bias", constant({4}, 0));
}

/// "from -> to" of the pair that makes `to`; empty where there is none.
std::string source_of(const AlignResult& result, const std::string& to) {
  for (const AlignedTensors& pair : result.pairs) {
    if (std::find(pair.to.begin(), pair.to.end(), to) != pair.to.end()) return pair.from[0];
  }
  return "";
}

std::size_t pairs_by(const AlignResult& result, AlignedTensors::By by) {
  return static_cast<std::size_t>(
      std::count_if(result.pairs.begin(), result.pairs.end(), [by](const auto& pair) { return pair.by == by; }));
}

}  // namespace

TEST(AlignEvidence, NormsOfAFreshModelWerePairedByLikenessUnderTheirOwnNames) {
  Items items;
  for (const char* name : {"bn1", "layer1.0.bn1", "layer1.0.bn2", "layer1.1.bn1"}) add_norm(items, name);
  Checkpoint a = file(items);
  std::reverse(items.begin(), items.end());
  Checkpoint b = applied(file(items), "[[rule]]\nrename = '*'\nto = 'module.*'\n");
  AlignResult result = ckpt::align(a, b);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(pairs_by(result, AlignedTensors::By::name), 8u);
  EXPECT_EQ(ckpt::to_toml(result.rules), "[[rule]]\nrename = \"*\"\nto = \"module.*\"\n");
}

TEST(AlignEvidence, NamesWinOverValues) {
  AlignResult result = ckpt::align(file({{"a.w", filled({3}, 1)}, {"b.w", filled({3}, 2)}}),
                                   file({{"a.w", filled({3}, 2)}, {"b.w", filled({3}, 1)}}));
  EXPECT_TRUE(result.complete);
  EXPECT_TRUE(result.rules.empty());
  EXPECT_EQ(result.other_values, 2u);
  EXPECT_EQ(pairs_by(result, AlignedTensors::By::name), 2u);
}

TEST(AlignEvidence, LayersCountedFromOneAreNotThoseOfTheSameNumber) {
  Items a;
  Items b;
  for (int n = 0; n < 4; ++n) {
    add_linear(a, "layers." + std::to_string(n + 1) + ".fc", static_cast<float>(n));
    add_norm(a, "layers." + std::to_string(n + 1) + ".norm");
    add_linear(b, "layers." + std::to_string(n) + ".fc", static_cast<float>(n));
    add_norm(b, "layers." + std::to_string(n) + ".norm");
  }
  AlignResult result = ckpt::align(file(a), file(b));
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(ckpt::to_toml(result.rules), "[[rule]]\nrename = \"layers.{#i}.*\"\nto = \"layers.{i-1}.*\"\n");
}

TEST(AlignEvidence, NamesAreTheSameUpToPrefixSuffixAndWrappers) {
  Items items;
  for (const char* name : {"enc.0.norm", "enc.1.norm", "head"}) add_norm(items, name);
  Checkpoint a = file(items);
  for (const char* to : {"module.*", "_orig_mod.module.*", "net.*", "*.data"}) {
    Checkpoint b = applied(a, "[[rule]]\nrename = '*'\nto = '" + std::string(to) + "'\n");
    EXPECT_TRUE(ckpt::align(a, b).complete) << to;
    EXPECT_TRUE(ckpt::align(b, a).complete) << to;
  }
  EXPECT_TRUE(ckpt::align(applied(a, "[[rule]]\nrename = '*'\nto = 'net.*'\n"),
                          applied(a, "[[rule]]\nrename = '*'\nto = 'model.*'\n"))
                  .complete);
  Checkpoint b = applied(a, "[[rule]]\nrename = 'enc.{i}.*'\nto = 'enc.{i}._checkpoint_wrapped_module.*'\n");
  AlignResult result = ckpt::align(b, a);
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(source_of(result, "enc.1.norm.bias"), "enc.1._checkpoint_wrapped_module.norm.bias");
}

TEST(AlignEvidence, OfTwoPrefixesValuesChooseOrNobody) {
  auto both = [](float student, float teacher) {
    Items items;
    for (int n = 0; n < 3; ++n) {
      std::string name = std::to_string(n) + ".weight";
      items.emplace_back("teacher." + name, filled({4, 3}, teacher + static_cast<float>(n)));
      items.emplace_back("student." + name, filled({4, 3}, student + static_cast<float>(n)));
    }
    return file(items);
  };
  Items items;
  for (int n = 0; n < 3; ++n) items.emplace_back(std::to_string(n) + ".weight", filled({4, 3}, static_cast<float>(n)));
  AlignResult trained = ckpt::align(both(0, 10), file(items), {.drop_unused = true});
  EXPECT_TRUE(trained.complete);
  EXPECT_EQ(source_of(trained, "1.weight"), "student.1.weight");
  AlignResult fresh = ckpt::align(both(0, 0), file(items));
  EXPECT_FALSE(fresh.complete);
  EXPECT_TRUE(fresh.pairs.empty());
  EXPECT_EQ(fresh.undecided.size(), 1u);
}

TEST(AlignEvidence, EqualLayersOfWhichNamesDoNotTellAreNotDecided) {
  Checkpoint a = file({{"p.weight", filled({3, 2}, 1)}, {"q.weight", filled({3, 2}, 2)}, {"r.bias", filled({5}, 3)}});
  Checkpoint b = file({{"x.weight", filled({3, 2}, 7)}, {"y.weight", filled({3, 2}, 8)}, {"z.bias", filled({5}, 3)}});
  AlignResult result = ckpt::align(a, b, {.drop_unused = true});
  EXPECT_FALSE(result.complete);
  ASSERT_EQ(result.undecided.size(), 1u);
  EXPECT_EQ(result.undecided[0].a, (std::vector<std::string>{"p.weight", "q.weight"}));
  EXPECT_EQ(result.undecided[0].b, (std::vector<std::string>{"x.weight", "y.weight"}));
  EXPECT_EQ(ckpt::to_toml(result),
            "# Not decided, so no rule names them:\n#   p.weight, q.weight of A; x.weight, y.weight of B\n\n"
            "[[rule]]\nrename = \"r.bias\"\nto = \"z.bias\"\n");
  EXPECT_EQ(test::names(ckpt::apply_rules(a, result.rules)),
            (std::vector<std::string>{"p.weight", "q.weight", "z.bias"}));
}

TEST(AlignEvidence, CopiesOfALayerAreCountedThroughOrNotDecided) {
  auto layers = [](const std::vector<std::string>& names) {
    Items items;
    for (const std::string& name : names) items.emplace_back(name + ".weight", filled({4, 3}, 1));
    return file(items);
  };
  AlignResult counted = ckpt::align(layers({"layers.0", "layers.1", "layers.2"}), layers({"h.1", "h.2", "h.3"}));
  EXPECT_TRUE(counted.complete);
  EXPECT_EQ(pairs_by(counted, AlignedTensors::By::structure), 3u);
  EXPECT_EQ(source_of(counted, "h.3.weight"), "layers.2.weight");
  EXPECT_TRUE(ckpt::align(layers({"left", "right"}), layers({"up", "down"})).pairs.empty());
  EXPECT_TRUE(ckpt::align(layers({"layers.0", "layers.1"}), layers({"h.0", "h.1", "h.2"})).pairs.empty());
  EXPECT_TRUE(ckpt::align(layers({"one"}), layers({"up", "down"})).pairs.empty());
  EXPECT_TRUE(ckpt::align(layers({"up", "down"}), layers({"one"})).pairs.empty());
  AlignResult named = ckpt::align(layers({"left", "right"}), layers({"module.right", "module.left"}));
  EXPECT_TRUE(named.complete);
  EXPECT_EQ(pairs_by(named, AlignedTensors::By::name), 2u);
  EXPECT_EQ(source_of(named, "module.left.weight"), "left.weight");
}

TEST(AlignEvidence, ACopyIsATieOnlyWhereMemoryIsShared) {
  Value one = filled({4, 3}, 1);
  AlignResult tied = ckpt::align(file({{"wte", one}}), file({{"wte", one}, {"head", one}}));
  EXPECT_TRUE(tied.complete);
  EXPECT_EQ(tied.rules.at(0).kind, ckpt::Rule::Kind::tie);
  AlignResult copied = ckpt::align(file({{"net.w", one}}), file({{"net.w", one}, {"average.w", filled({4, 3}, 1)}}));
  EXPECT_FALSE(copied.complete);
  EXPECT_EQ(copied.only_in_b, std::vector<std::string>{"average.w"});
}

TEST(AlignEvidence, NamesOfOneTensorMayBeAnyOfThoseOfAnother) {
  Value here = filled({4, 3}, 1);
  Value there = filled({4, 3}, 1);
  Checkpoint two = file({{"wte.weight", here}, {"head.weight", here}});
  AlignResult both = ckpt::align(two, file({{"tokens.weight", there}, {"out.weight", there}}));
  EXPECT_TRUE(both.complete);
  EXPECT_EQ(pairs_by(both, AlignedTensors::By::structure), 2u);
  AlignResult one = ckpt::align(two, file({{"tokens.weight", there}}), {.drop_unused = true});
  EXPECT_TRUE(one.complete);
  EXPECT_EQ(one.only_in_a.size(), 1u);
}

TEST(AlignEvidence, NormsFollowTheLayersBetweenWhichTheyStand) {
  Items a;
  Items b;
  for (int n = 0; n < 2; ++n) {
    std::string block = "block" + std::to_string(n) + ".";
    add_linear(a, block + "conv_in", 10.0F + static_cast<float>(n));
    add_norm(a, block + "norm_in");
    add_linear(a, block + "conv_out", 20.0F + static_cast<float>(n));
    add_norm(a, block + "norm_out");
    block = "stage." + std::to_string(n) + ".";
    add_linear(b, block + "reduce", 10.0F + static_cast<float>(n));
    add_norm(b, block + "scale");
    add_linear(b, block + "expand", 20.0F + static_cast<float>(n));
    add_norm(b, block + "normalise");
  }
  AlignResult result = ckpt::align(file(a), file(b));
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(source_of(result, "stage.1.scale.weight"), "block1.norm_in.weight");
  EXPECT_EQ(source_of(result, "stage.0.normalise.bias"), "block0.norm_out.bias");
  EXPECT_EQ(source_of(result, "stage.0.expand.bias"), "block0.conv_out.bias");
  EXPECT_EQ(pairs_by(result, AlignedTensors::By::content), 4u);
}

TEST(AlignEvidence, AShortcutThatTheOtherFileListsFirstHidesNoNorms) {
  Items a;
  add_linear(a, "b.conv_in", 1);
  add_norm(a, "b.norm_in");
  add_linear(a, "b.conv_out", 2);
  add_norm(a, "b.norm_out");
  add_linear(a, "b.down.conv", 3);
  add_norm(a, "b.down.norm");
  Items b;
  add_linear(b, "s.skip.project", 3);
  add_norm(b, "s.skip.scale");
  add_linear(b, "s.reduce", 1);
  add_norm(b, "s.rescale");
  add_linear(b, "s.expand", 2);
  add_norm(b, "s.normalise");
  AlignResult result = ckpt::align(file(a), file(b));
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(source_of(result, "s.skip.scale.weight"), "b.down.norm.weight");
  EXPECT_EQ(source_of(result, "s.rescale.weight"), "b.norm_in.weight");
  EXPECT_EQ(source_of(result, "s.normalise.bias"), "b.norm_out.bias");
}

/// A norm before each layer, as the one lists them, and behind, as another does: what stands between the same layers
/// is not the same norm.
TEST(AlignEvidence, NormsThatOneFileListsBeforeAndTheOtherBehindWereSwapped) {
  auto model = [](const std::vector<std::string>& order) {
    Items items;
    for (const std::string& name : order) {
      if (name.find("attn") != std::string::npos && name.find("norm") == std::string::npos) {
        add_linear(items, name, 1);
      } else if (name.find("mlp") != std::string::npos && name.find("norm") == std::string::npos) {
        add_linear(items, name, 2);
      } else {
        add_norm(items, name);
      }
    }
    return file(items);
  };
  Checkpoint before = model({"b.norm1", "b.attn", "b.norm2", "b.mlp"});
  AlignResult counted = ckpt::align(before, model({"l.self_attn", "l.layer_norm1", "l.mlp", "l.layer_norm2"}));
  EXPECT_TRUE(counted.complete);
  EXPECT_EQ(source_of(counted, "l.layer_norm1.weight"), "b.norm1.weight");
  AlignResult words = ckpt::align(before, model({"l.self_attn", "l.mlp", "l.layernorm_after", "l.layernorm_before"}));
  EXPECT_TRUE(words.complete);
  EXPECT_EQ(source_of(words, "l.layernorm_before.weight"), "b.norm1.weight");
  AlignResult open = ckpt::align(before, model({"l.self_attn", "l.norm_of_attn", "l.mlp", "l.norm_of_mlp"}));
  EXPECT_FALSE(open.complete);
  EXPECT_EQ(open.undecided.size(), 2u);
  EXPECT_EQ(source_of(open, "l.mlp.bias"), "b.mlp.bias");
}

TEST(AlignEvidence, ModulesThatAreCountedBackwardsKeepTheirNorms) {
  Items a;
  Items b;
  for (int n = 0; n < 3; ++n) {
    add_linear(a, "up." + std::to_string(n) + ".conv", static_cast<float>(n));
    add_norm(a, "up." + std::to_string(n) + ".bn1");
    add_norm(a, "up." + std::to_string(n) + ".bn2");
    add_linear(b, "up_blocks." + std::to_string(2 - n) + ".conv", static_cast<float>(n));
    add_norm(b, "up_blocks." + std::to_string(2 - n) + ".norm1");
    add_norm(b, "up_blocks." + std::to_string(2 - n) + ".norm2");
  }
  AlignResult result = ckpt::align(file(a), file(b));
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(source_of(result, "up_blocks.2.norm1.weight"), "up.0.bn1.weight");
  EXPECT_EQ(source_of(result, "up_blocks.0.norm2.bias"), "up.2.bn2.bias");
}

TEST(AlignEvidence, OnlyPartsThatValuesTellApartAreCut) {
  auto fused = [](const std::vector<float>& seeds, float bias) {
    std::vector<float> values;
    for (float seed : seeds) {
      for (std::size_t i = 0; i < 6; ++i) values.push_back(seed * 100 + static_cast<float>(i * i));
    }
    return file({{"attn.in_proj_weight", shaped(values, {6, 3})}, {"attn.in_proj_bias", constant({6}, bias)}});
  };
  auto parts = [](const std::vector<float>& seeds, float bias) {
    Items items;
    std::size_t n = 0;
    for (const char* name : {"x.query", "x.key", "x.value"}) {
      items.emplace_back(name + std::string(".weight"), filled({2, 3}, seeds[n++]));
      items.emplace_back(name + std::string(".bias"), constant({2}, bias));
    }
    return file(items);
  };
  AlignResult split = ckpt::align(fused({1, 2, 3}, 0), parts({1, 2, 3}, 0));
  EXPECT_TRUE(split.complete);
  EXPECT_EQ(pairs_by(split, AlignedTensors::By::content), 1u);
  EXPECT_EQ(pairs_by(split, AlignedTensors::By::name), 1u);
  EXPECT_EQ(source_of(split, "x.key.bias"), "attn.in_proj_bias");
  AlignResult fuse = ckpt::align(parts({1, 2, 3}, 0), fused({1, 2, 3}, 0));
  EXPECT_TRUE(fuse.complete);
  EXPECT_EQ(source_of(fuse, "attn.in_proj_bias"), "x.query.bias");
  for (const std::vector<float>& alike : {std::vector<float>{1, 1, 2}, {4, 4, 4}}) {
    EXPECT_TRUE(ckpt::align(fused(alike, 0), parts(alike, 0)).pairs.empty());
  }
}

TEST(AlignEvidence, AConstantThatBothFilesHaveOnceProvesNothing) {
  std::vector<float> values(12);
  for (std::size_t i = 0; i < 6; ++i) values[i] = static_cast<float>(i * i) + 1;
  Checkpoint whole = file({{"qv", shaped(values, {4, 3})}});
  Checkpoint parts = file({{"q", shaped({values.begin(), values.begin() + 6}, {2, 3})}, {"v", constant({2, 3}, 0)}});
  EXPECT_TRUE(ckpt::align(whole, parts).pairs.empty());
  EXPECT_TRUE(ckpt::align(parts, whole).pairs.empty());
  Checkpoint tall = file({{"gate", constant({6, 4}, 0)}});
  EXPECT_TRUE(ckpt::align(tall, file({{"door", constant({4, 6}, 0)}})).pairs.empty());
  AlignResult named = ckpt::align(tall, file({{"gate", constant({4, 6}, 0)}}));
  EXPECT_TRUE(named.pairs.empty());
  ASSERT_EQ(named.undecided.size(), 1u);
  EXPECT_EQ(named.undecided[0].b, std::vector<std::string>{"gate"});
}

TEST(AlignEvidence, TheOnlyNormsOfTwoFilesBelongToOtherLayers) {
  Items a;
  Items b;
  add_linear(a, "up.0.conv", 1);
  add_norm(a, "up.0.bn");
  add_linear(a, "up.1.conv", 2);
  add_linear(b, "blocks.0.conv", 2);
  add_norm(b, "blocks.0.norm");
  add_linear(b, "blocks.1.conv", 1);
  AlignResult result = ckpt::align(file(a), file(b));
  EXPECT_EQ(source_of(result, "blocks.1.conv.bias"), "up.0.conv.bias");
  EXPECT_EQ(source_of(result, "blocks.0.norm.weight"), "");
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.undecided.size(), 2u);
}

TEST(AlignEvidence, AMatrixIsTransposedOnlyWhereValuesTell) {
  auto model = [](float seed, bool turned, bool zeros) {
    Items items;
    for (int n = 0; n < 2; ++n) {
      std::string name = "h." + std::to_string(n) + ".";
      items.emplace_back(name + "fc.weight", filled({4, 6}, seed + static_cast<float>(n)));
      bool zero = zeros && n == 1;
      items.emplace_back(name + "proj.weight",
                         zero ? constant({5, 5}, 0) : filled({5, 5}, seed + 5 + static_cast<float>(n)));
    }
    return turned ? applied(file(items), "[[rule]]\ntranspose = '*.weight'\n") : file(items);
  };
  AlignResult told = ckpt::align(model(1, false, false), model(1, true, false));
  EXPECT_TRUE(told.complete);
  EXPECT_EQ(ckpt::to_toml(told.rules), "[[rule]]\ntranspose = \"**\"\ndims = [1, 0]\n");
  // One of a kind is zeros: it goes the way of the others.
  AlignResult zeros = ckpt::align(model(1, false, true), model(1, true, true));
  EXPECT_TRUE(zeros.complete);
  EXPECT_EQ(ckpt::to_toml(zeros.rules), "[[rule]]\ntranspose = \"**\"\ndims = [1, 0]\n");
  // Other values, but other shapes say that the file is transposed: the square ones may be too.
  AlignResult other = ckpt::align(model(1, false, false), model(50, true, false));
  EXPECT_FALSE(other.complete);
  EXPECT_TRUE(other.rules.empty());
  EXPECT_EQ(other.undecided.size(), 4u);
  EXPECT_TRUE(ckpt::align(model(1, false, false), model(50, false, false)).complete);
}

TEST(AlignEvidence, OtherNamesOfPartsOfAModuleFollowTheirConstants) {
  Items a;
  Items b;
  for (int n = 0; n < 2; ++n) {
    std::string layer = "layer." + std::to_string(n);
    add_linear(a, "bert." + layer + ".dense", static_cast<float>(n));
    add_linear(b, layer + ".dense", static_cast<float>(n));
    a.emplace_back("bert." + layer + ".LayerNorm.gamma", constant({4}, 1));
    a.emplace_back("bert." + layer + ".LayerNorm.beta", constant({4}, 0));
    add_norm(b, layer + ".LayerNorm");
  }
  AlignResult result = ckpt::align(file(a), file(b));
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(source_of(result, "layer.1.LayerNorm.weight"), "bert.layer.1.LayerNorm.gamma");
  EXPECT_EQ(source_of(result, "layer.0.LayerNorm.bias"), "bert.layer.0.LayerNorm.beta");
}

TEST(AlignEvidence, ByContentPairsNoOtherValues) {
  Checkpoint a = file({{"same", constant({3}, 1)}, {"other", filled({3}, 1)}});
  Checkpoint b = file({{"same", constant({3}, 1)}, {"other", filled({3}, 2)}});
  AlignResult result = ckpt::align(a, b, {.by_shape = false});
  EXPECT_EQ(source_of(result, "same"), "same");
  EXPECT_EQ(source_of(result, "other"), "");
  EXPECT_FALSE(result.complete);
}

TEST(AlignEvidence, WhatNamesAloneSayStandsInTheRuleFile) {
  Items items;
  add_linear(items, "fc", 1);
  AlignResult result = ckpt::align(file(items), applied(file(items), "[[rule]]\nrename = '*'\nto = 'module.*'\n"));
  std::string text = ckpt::to_toml(result);
  EXPECT_EQ(text,
            "# Paired by name alone: the values do not prove these pairs.\n#   fc.bias -> module.fc.bias\n\n"
            "[[rule]]\nrename = \"*\"\nto = \"module.*\"\n");
  EXPECT_EQ(ckpt::to_toml(ckpt::parse_rules(text, "rules")), ckpt::to_toml(result.rules));
}

TEST(AlignOrdinals, CountsNamesThroughInOneWay) {
  using ckpt::detail::IndexPairs;
  using ckpt::detail::zip_by_order;
  EXPECT_EQ(zip_by_order({"ln_1.w", "ln_2.w"}, {"norm_after.w", "norm_before.w"}), (IndexPairs{{0, 1}, {1, 0}}));
  EXPECT_EQ(zip_by_order({"h.10.w", "h.9.w"}, {"l0", "l1"}), (IndexPairs{{1, 0}, {0, 1}}));
  EXPECT_EQ(zip_by_order({"a.0", "a.1"}, {"b.0", "c.1"}), std::nullopt);
  EXPECT_EQ(zip_by_order({"a.0", "a.1"}, {"b.0", "b.after"}), std::nullopt);
  EXPECT_EQ(zip_by_order({"a.0", "a.1", "a.2"}, {"b.0", "b.1"}), std::nullopt);
  EXPECT_EQ(zip_by_order({"a.1", "a.01"}, {"b.0", "b.1"}), std::nullopt);
  // Two by two against three and one: not counted in the same way.
  EXPECT_EQ(zip_by_order({"0.0", "0.1", "1.0", "1.1"}, {"0.0", "0.1", "0.2", "1.0"}), std::nullopt);
  EXPECT_EQ(zip_by_order({"0", "1", "2", "3"}, {"0.0", "0.1", "1.0", "1.1"}), std::nullopt);
}
