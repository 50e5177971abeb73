#include "libckpt/transform/prefix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "libcore/base/error.h"
#include "tests/libckpt/transform/trees.h"

using ckpt::Value;
using testing::ElementsAre;
using namespace test;

namespace {

template <class Body>
core::Error error_of(Body&& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error;
  }
  return {core::ErrorCode::internal, "no error"};
}

}  // namespace

TEST(StripPrefix, TakesModuleOffAndKeepsOrderAndBytes) {
  ckpt::Checkpoint wrapped = checkpoint(state_dict({"module.fc2.weight", "module.fc1.weight", "step"}));
  ckpt::KeyChanges changes;
  ckpt::Checkpoint plain = ckpt::strip_prefix(wrapped, {}, &changes);
  EXPECT_THAT(names(plain), ElementsAre("fc2.weight", "fc1.weight", "step"));
  EXPECT_EQ(plain.root.find("fc1.weight")->identity(), wrapped.root.find("module.fc1.weight")->identity());
  EXPECT_EQ(changes.keys, 3u);
  ASSERT_EQ(changes.renamed.size(), 2u);
  EXPECT_EQ(changes.renamed[0].from, "module.fc2.weight");
  EXPECT_EQ(changes.renamed[0].to, "fc2.weight");
}

TEST(StripPrefix, MatchesWholeComponentsOnly) {
  std::vector<std::string> keys = {"modules.0.weight", "module_list.0.w", "my.module.w", "module", "Module.w"};
  EXPECT_EQ(names(ckpt::strip_prefix(checkpoint(state_dict(keys)))), keys);
  EXPECT_THAT(names(ckpt::strip_prefix(checkpoint(state_dict({"module..w"})))), ElementsAre(".w"));
  EXPECT_THAT(names(ckpt::strip_prefix(checkpoint(state_dict({"module.w", "modules.v"})), {.prefix = "module"})),
              ElementsAre("w", "modules.v"));
}

TEST(StripPrefix, RepeatsOnlyWhenAsked) {
  ckpt::Checkpoint twice = checkpoint(state_dict({"module.module.fc.w"}));
  EXPECT_THAT(names(ckpt::strip_prefix(twice)), ElementsAre("module.fc.w"));
  EXPECT_THAT(names(ckpt::strip_prefix(twice, {.repeat = true})), ElementsAre("fc.w"));
}

TEST(StripPrefix, DropsKnownWrappersAtAnyDepth) {
  ckpt::Checkpoint wrapped = checkpoint(state_dict({"module._orig_mod.features.module.0.weight", "model.module"},
                                                   {"", "module", "module._orig_mod.features.module.0"}));
  ckpt::Checkpoint plain = ckpt::strip_prefix(wrapped, {.wrappers = true});
  EXPECT_THAT(names(plain), ElementsAre("features.0.weight", "model.module"));
  EXPECT_THAT(modules(plain.root), ElementsAre("", "features.0"));
}

TEST(StripPrefix, RefusesACollisionNamingBothKeys) {
  core::Error error = error_of([] { ckpt::strip_prefix(checkpoint(state_dict({"module.a", "b", "a"}))); });
  EXPECT_EQ(error.code(), core::ErrorCode::collision);
  EXPECT_EQ(error.message(), "keys 'module.a' and 'a' would both become 'a'");
}

TEST(StripPrefix, RefusesAKeyThatIsNothingButThePrefix) {
  core::Error error = error_of([] { ckpt::strip_prefix(checkpoint(state_dict({"module."}))); });
  EXPECT_EQ(error.code(), core::ErrorCode::refused);
  EXPECT_EQ(error.message(), "key 'module.' would be left without a name");
}

TEST(StripPrefix, RefusesAnEmptyPrefix) {
  EXPECT_EQ(error_of([] { ckpt::strip_prefix(checkpoint(state_dict({"a"})), {.prefix = ""}); }).code(),
            core::ErrorCode::usage);
}

TEST(StripPrefix, MovesVersionsAndLetsTheModulesOwnWin) {
  Value model = state_dict({"module.bn.weight"}, {"", "module", "module.bn"});
  ckpt::Dict edited = model.as_dict();
  edited.attributes = dict({{"_metadata", dict({{"", dict({{"version", Value::integer(1)}})},
                                                {"module", dict({{"version", Value::integer(7)}})},
                                                {"module.bn", dict({{"version", Value::integer(2)}})}})}});
  ckpt::Checkpoint plain = ckpt::strip_prefix(checkpoint(Value::dict(edited)));
  EXPECT_THAT(ckpt::module_versions(plain.root.as_dict()), ElementsAre(testing::Pair("", 7), testing::Pair("bn", 2)));
}

TEST(StripPrefix, ActsOnEveryStateDictOrOnTheOneNamed) {
  ckpt::Checkpoint both = checkpoint(dict({{"model", state_dict({"module.w"})}, {"ema", state_dict({"module.w"})}}));
  EXPECT_THAT(names(ckpt::strip_prefix(both)), ElementsAre("model.w", "ema.w"));
  EXPECT_THAT(names(ckpt::strip_prefix(both, {.at = "ema"})), ElementsAre("model.module.w", "ema.w"));
  EXPECT_EQ(error_of([&] { ckpt::strip_prefix(both, {.at = "net"}); }).code(), core::ErrorCode::key);
}

TEST(StripPrefix, LeavesAContainerOfThatNameAlone) {
  ckpt::Checkpoint file = checkpoint(dict({{"module", state_dict({"w"})}, {"epoch", Value::integer(3)}}));
  EXPECT_EQ(ckpt::strip_prefix(file).root, file.root);
}

TEST(StripPrefix, KeepsAliasedContainersOneObject) {
  Value model = state_dict({"module.w"});
  ckpt::Checkpoint plain = ckpt::strip_prefix(checkpoint(dict({{"model", model}, {"best", model}})));
  EXPECT_EQ(plain.root.find("model")->identity(), plain.root.find("best")->identity());
  EXPECT_THAT(names(plain), ElementsAre("model.w", "best.w"));
}

TEST(StripPrefix, TakesTheOptimizersNamesAlong) {
  Value group = dict(
      {{"params", Value::list({Value::integer(0)})}, {"param_names", Value::list({Value::text("module.fc.weight")})}});
  Value optimizer = dict({{"state", dict({})}, {"param_groups", Value::list({group})}});
  ckpt::Checkpoint plain =
      ckpt::strip_prefix(checkpoint(dict({{"model", state_dict({"module.fc.weight"})}, {"optimizer", optimizer}})));
  const Value& names = ckpt::value_at(plain.root, "optimizer.param_groups.0.param_names");
  EXPECT_EQ(names.as_list()[0].as_text(), "fc.weight");
}

TEST(AddPrefix, PutsItBeforeEveryKeyAndComesBack) {
  ckpt::Checkpoint plain = checkpoint(state_dict({"fc.weight", "fc.bias"}, {"", "fc"}));
  ckpt::Checkpoint wrapped = ckpt::add_prefix(plain);
  EXPECT_THAT(names(wrapped), ElementsAre("module.fc.weight", "module.fc.bias"));
  EXPECT_THAT(modules(wrapped.root), ElementsAre("module", "module.fc"));
  ckpt::Checkpoint back = ckpt::strip_prefix(wrapped);
  EXPECT_EQ(back.root, plain.root);
}

TEST(AddPrefix, FindsTheModelBesideItsOptimizer) {
  Value optimizer = dict({{"state", dict({{"0", state_dict({"exp_avg"})}})}, {"param_groups", Value::list({})}});
  ckpt::Checkpoint file = checkpoint(dict({{"model", state_dict({"w"})}, {"optimizer", optimizer}}));
  EXPECT_THAT(names(ckpt::add_prefix(file)), ElementsAre("model.module.w", "optimizer.state.0.exp_avg"));
}

TEST(AddPrefix, AsksWhichWhereAnAverageWouldBeLeftAsItIs) {
  ckpt::Checkpoint both = checkpoint(dict({{"model", state_dict({"a", "b"})}, {"ema", state_dict({"a"})}}));
  core::Error error = error_of([&] { ckpt::add_prefix(both); });
  EXPECT_EQ(error.code(), core::ErrorCode::usage);
  EXPECT_EQ(error.message(), "several state dicts: 'model' (2 tensors), 'ema' (1 tensor)");
  EXPECT_THAT(names(ckpt::add_prefix(both, {.prefix = "net.", .at = "ema"})),
              ElementsAre("model.a", "model.b", "ema.net.a"));
}

TEST(AddPrefix, ListsTheCandidatesInsteadOfGuessing) {
  ckpt::Checkpoint both = checkpoint(dict({{"encoder", state_dict({"a", "b"})}, {"decoder", state_dict({"a"})}}));
  core::Error error = error_of([&] { ckpt::add_prefix(both); });
  EXPECT_EQ(error.code(), core::ErrorCode::usage);
  EXPECT_EQ(error.message(), "several state dicts: 'encoder' (2 tensors), 'decoder' (1 tensor)");
}

TEST(StripPrefix, TakesItOutAnywhereWhenAsked) {
  ckpt::Checkpoint file =
      checkpoint(state_dict({"features.module.0.module.w", "module.b", "modules.module", "a.module.c"},
                            {"", "features", "features.module", "features.module.0"}));
  EXPECT_THAT(names(ckpt::strip_prefix(file, {.anywhere = true})),
              ElementsAre("features.0.module.w", "b", "modules.module", "a.c"));
  ckpt::Checkpoint all = ckpt::strip_prefix(file, {.repeat = true, .anywhere = true});
  EXPECT_THAT(names(all), ElementsAre("features.0.w", "b", "modules.module", "a.c"));
  EXPECT_THAT(modules(all.root), ElementsAre("", "features", "features.0"));
  ckpt::Checkpoint pairs = checkpoint(state_dict({"x.a.b.w", "x.a.w"}));
  EXPECT_THAT(names(ckpt::strip_prefix(pairs, {.prefix = "a.b", .anywhere = true})), ElementsAre("x.w", "x.a.w"));
}

TEST(StripPrefix, SaysWhatIsThereWhenThePrefixIsNot) {
  ckpt::KeyChanges changes;
  ckpt::strip_prefix(checkpoint(state_dict({"enc.a", "head.w", "enc.b", "scale"})), {}, &changes);
  EXPECT_THAT(changes.starts, ElementsAre(testing::Pair("enc.", 2), testing::Pair("head.", 1)));
  EXPECT_EQ(changes.inside, "");
  ckpt::strip_prefix(checkpoint(state_dict({"features.module.0.w"})), {}, &changes);
  EXPECT_EQ(changes.inside, "features.module.0.w");
  ckpt::strip_prefix(checkpoint(state_dict({"module.w"})), {}, &changes);
  EXPECT_TRUE(changes.starts.empty());
}

namespace {

/// A model as a tree of modules, and the same with wrappers put around some of them, as torch would name both.
class RandomModel {
 public:
  explicit RandomModel(unsigned seed) : random_(seed) {
    grow("", "", 0);
    std::shuffle(order_.begin(), order_.end(), random_);
  }

  Value plain() const { return build(false); }
  Value wrapped() const { return build(true); }

 private:
  unsigned draw(unsigned below) { return static_cast<unsigned>(random_() % below); }

  void grow(const std::string& plain_path, std::string wrapped_path, int depth) {
    constexpr const char* kWrappers[] = {"module", "_orig_mod", "_fsdp_wrapped_module"};
    paths_.push_back({plain_path, wrapped_path});
    for (unsigned n = draw(3); n > 0; --n) {
      wrapped_path += (wrapped_path.empty() ? "" : ".") + std::string(kWrappers[draw(3)]);
      paths_.push_back({plain_path, wrapped_path});
    }
    for (unsigned n = 0; n < 2; ++n)
      order_.push_back({join(plain_path, "w" + std::to_string(n)), join(wrapped_path, "w" + std::to_string(n))});
    for (unsigned n = depth < 4 ? draw(4) : 0; n > 0; --n) {
      std::string child = "layer" + std::to_string(n);
      grow(join(plain_path, child), join(wrapped_path, child), depth + 1);
    }
  }
  static std::string join(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
  }

  /// The version of a wrapper is 1, that of a module its place in the tree.
  Value build(bool wrapped) const {
    ckpt::Dict out;
    out.type = "collections.OrderedDict";
    for (const auto& [plain_key, wrapped_key] : order_) {
      out.items.emplace_back(Value::text(wrapped ? wrapped_key : plain_key),
                             tensors_.empty() ? Value() : tensors_.at(plain_key));
    }
    std::vector<std::pair<std::string, Value>> versions;
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      bool innermost = i + 1 == paths_.size() || paths_[i + 1].first != paths_[i].first;
      Value version = dict({{"version", Value::integer(innermost ? static_cast<std::int64_t>(i) + 2 : 1)}});
      if (wrapped) versions.emplace_back(paths_[i].second, version);
      if (!wrapped && innermost) versions.emplace_back(paths_[i].first, version);
    }
    out.attributes = dict({{"_metadata", dict(std::move(versions))}});
    Value names = Value::list({});
    Value::List list;
    for (const auto& item : out.items) list.push_back(item.first);
    Value group = dict({{"params", Value::list({})}, {"param_names", Value::list(std::move(list))}});
    return dict({{"model", Value::dict(std::move(out))},
                 {"optimizer", dict({{"state", dict({})}, {"param_groups", Value::list({group})}})}});
  }

  std::mt19937 random_;
  std::vector<std::pair<std::string, std::string>> paths_;  // of modules: plain, wrapped
  std::vector<std::pair<std::string, std::string>> order_;  // keys: plain, wrapped
  std::map<std::string, Value> tensors_;

 public:
  /// Tensors are shared by both forms; every third is tied to the one before.
  void make_tensors() {
    Value last;
    for (std::size_t i = 0; i < order_.size(); ++i) {
      if (i % 3 != 2) last = tensor({static_cast<float>(i)});
      tensors_[order_[i].first] = last;
    }
  }
};

}  // namespace

TEST(StripPrefix, UndoesWhateverWrappersDidToRandomModels) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomModel model(seed);
    model.make_tensors();
    ckpt::Checkpoint stripped = ckpt::strip_prefix(checkpoint(model.wrapped()), {.wrappers = true});
    EXPECT_EQ(stripped.root, model.plain()) << seed;
  }
}

TEST(StripPrefix, UndoesAddPrefixOnRandomModels) {
  constexpr const char* kPrefixes[] = {"module.", "a", "encoder.model.", "module.module."};
  for (unsigned seed = 0; seed < 200; ++seed) {
    RandomModel model(seed);
    model.make_tensors();
    std::string prefix = kPrefixes[seed % 4];
    for (const Value& root : {model.plain(), model.wrapped()}) {
      ckpt::Checkpoint there = ckpt::add_prefix(checkpoint(root), {.prefix = prefix});
      EXPECT_EQ(ckpt::strip_prefix(there, {.prefix = prefix}).root, root) << seed;
    }
  }
}
