#include "libckpt/analyze/why.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "libckpt/analyze/why/fix.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tests/libckpt/analyze/why/model.h"

using ckpt::CauseKind;
using ckpt::Diagnosis;
using ckpt::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

ckpt::Checkpoint file_of(Value root) {
  ckpt::Checkpoint checkpoint;
  checkpoint.root = std::move(root);
  return checkpoint;
}

Diagnosis diagnose(const ckpt::Checkpoint& checkpoint, const ckpt::WhyOptions& options,
                   const std::string& subject = "net.pth") {
  return ckpt::why({&checkpoint, subject, {}, {}}, options);
}

Diagnosis diagnose_for(Value root, const Parts& model) {
  return diagnose(file_of(std::move(root)), {.wanted = {wanted(model)}});
}

std::vector<std::string> keys_of(const Value& dict) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : dict.as_dict().items) keys.push_back(ckpt::step_text(key));
  return keys;
}

std::vector<std::string> keys_of(const Parts& parts) {
  std::vector<std::string> keys;
  for (const Part& part : parts) keys.push_back(part.key);
  return keys;
}

/// Puts a wrapper in front of the children of some modules, each chosen once for all its keys.
class RandomWrapping {
 public:
  explicit RandomWrapping(unsigned seed) : random_(seed) {}
  std::string operator()(const std::string& key) {
    std::string out;
    std::string path;
    std::vector<std::string_view> parts = core::split(key, '.');
    for (std::size_t i = 0; i < parts.size(); ++i) {
      out += (i == 0 ? "" : ".") + wrappers(path, i + 1 < parts.size() || i == 0) + std::string(parts[i]);
      path += "." + std::string(parts[i]);
    }
    return out;
  }

 private:
  const std::string& wrappers(const std::string& module, bool may) {
    static const std::vector<std::string> kNames = {"module.", "_orig_mod.", "_fsdp_wrapped_module.",
                                                    "_checkpoint_wrapped_module.", "_forward_module."};
    auto [at, fresh] = chosen_.try_emplace(module);
    while (fresh && may && random_() % 3 == 0) at->second += kNames[random_() % kNames.size()];
    return at->second;
  }
  std::mt19937 random_;
  std::map<std::string, std::string> chosen_;
};

}  // namespace

TEST(Why, SaysThatAFileLoadsAsItIs) {
  Diagnosis d = diagnose_for(build(small_mlp()), small_mlp());
  EXPECT_TRUE(d.loads());
  EXPECT_EQ(d.before, d.after);
  EXPECT_EQ(d.before.keys, 6u);
  EXPECT_EQ(ckpt::command_line(d), "");
  EXPECT_EQ(ckpt::python_line(d), "");
}

TEST(Why, CountsKeysAndBytesBeforeAndAfter) {
  Diagnosis d = diagnose_for(build(small_mlp(), with_prefix("module.")), small_mlp());
  EXPECT_EQ(d.before.keys, 0u);
  EXPECT_EQ(d.after.keys, 6u);
  EXPECT_EQ(d.after.wanted, 6u);
  EXPECT_EQ(d.after.bytes, d.after.bytes_wanted);
  EXPECT_GT(d.after.bytes, 0u);
  EXPECT_TRUE(d.fixable());
}

TEST(Why, PeelsWrappersAtRandomDepth) {
  Parts model = small_resnet({2, 1}, 5);
  Parts other = small_gpt(2);
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Parts& parts = seed % 2 == 0 ? model : other;
    ckpt::Checkpoint broken = file_of(build(parts, RandomWrapping(seed)));
    Diagnosis d = diagnose(broken, {.wanted = {wanted(parts)}});
    ckpt::Checkpoint fixed = ckpt::apply_fix(broken, d.plan);
    ASSERT_EQ(keys_of(fixed.root), keys_of(parts)) << "seed " << seed;
    for (const ckpt::Cause& cause : d.causes) {
      EXPECT_TRUE(cause.kind == CauseKind::wrapper_prefix || cause.kind == CauseKind::wrapper_inside) << seed;
    }
  }
}

TEST(Why, PutsWrappersWhereTheModelHasThem) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Parts parts = small_gpt(2);
    ckpt::Checkpoint broken = file_of(build(parts));
    RandomWrapping wrapping(seed);
    Parts model = parts;
    for (Part& part : model) part.key = wrapping(part.key);
    ckpt::Checkpoint fixed = ckpt::apply_fix(broken, diagnose(broken, {.wanted = {wanted(model)}}).plan);
    ASSERT_EQ(keys_of(fixed.root), keys_of(model)) << "seed " << seed;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(fixed.root.as_dict().items[i].second.identity(), broken.root.as_dict().items[i].second.identity());
    }
  }
}

TEST(Why, FindsWhatLiesUnderRandomPrefixesAndDicts) {
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    std::string prefix;
    for (unsigned i = random() % 3; i > 0; --i) prefix += "p" + std::to_string(random() % 100) + "x.";
    Value root = build(small_mlp(), with_prefix(prefix));
    for (unsigned i = random() % 3; i > 0; --i)
      root = dict_of({{"level" + std::to_string(i), root}, {"epoch", Value::integer(1)}});
    ckpt::Checkpoint broken = file_of(root);
    Diagnosis d = diagnose(broken, {.wanted = {wanted(small_mlp())}});
    EXPECT_EQ(keys_of(ckpt::apply_fix(broken, d.plan).root), keys_of(small_mlp())) << prefix;
  }
}

TEST(Why, KeepsVersionsWithTheirModules) {
  ckpt::Dict dict = build(small_mlp(), with_prefix("module.")).as_dict();
  dict.attributes = dict_of({{"_metadata", dict_of({{"module.fc1", dict_of({{"version", Value::integer(2)}})}})}});
  ckpt::Checkpoint broken = file_of(Value::dict(dict));
  ckpt::Checkpoint fixed = ckpt::apply_fix(broken, diagnose(broken, {.wanted = {wanted(small_mlp())}}).plan);
  EXPECT_THAT(ckpt::module_versions(fixed.root.as_dict()), ElementsAre(std::pair<std::string, std::int64_t>("fc1", 2)));
}

TEST(Why, ActsOnTheDictThatWasNamedAndLeavesTheRest) {
  ckpt::Checkpoint broken =
      file_of(dict_of({{"ema", build(small_mlp(), with_prefix("module."))}, {"epoch", Value::integer(3)}}));
  Diagnosis d = diagnose(broken, {.wanted = {wanted(small_mlp())}, .at = "ema"}, "net.pth::ema");
  EXPECT_EQ(ckpt::command_line(d), "ckpt strip-prefix --prefix module. net.pth::ema -o net.fixed.pth");
  ckpt::Checkpoint fixed = ckpt::apply_fix(broken, d.plan);
  EXPECT_THAT(keys_of(fixed.root), ElementsAre("ema", "epoch"));
  EXPECT_EQ(keys_of(*fixed.root.find("ema")), keys_of(small_mlp()));
  EXPECT_THROW(diagnose(broken, {.at = "nowhere"}), core::Error);
}

TEST(Why, TakesTheBestOfSeveralTargets) {
  ckpt::WhyOptions options;
  options.wanted = {wanted(small_bert(), "bert"), wanted(small_mlp(), "mlp")};
  Diagnosis d = diagnose(file_of(build(small_mlp(), with_prefix("net."))), options);
  EXPECT_EQ(d.target, "mlp");
  EXPECT_THAT(d.also, ElementsAre("bert"));
}

TEST(Why, NamesAKnownModelByItsShapes) {
  std::vector<ckpt::KeyList> known = {wanted(small_bert(), "bert"), wanted(small_resnet({2, 2}, 10), "resnet")};
  ckpt::WhyOptions options;
  options.known = [&]() -> const std::vector<ckpt::KeyList>& { return known; };
  Diagnosis d = diagnose(file_of(build(small_resnet({2, 2}, 10), with_prefix("encoder."))), options);
  EXPECT_EQ(d.nearest, "resnet");
  ASSERT_EQ(d.causes.size(), 1u);
  EXPECT_EQ(d.causes[0].kind, CauseKind::prefix_offset);
  auto near = ckpt::nearest_models(known, build(small_resnet({2, 2}, 3)).as_dict());
  ASSERT_EQ(near.size(), 1u);
  EXPECT_EQ(near[0].model->name, "resnet");
  EXPECT_LT(near[0].share, 1);
}

TEST(Why, DoesNotRenameKeysOfAnotherModel) {
  Diagnosis d = diagnose_for(build(small_bert()), small_resnet({2, 2}, 10));
  EXPECT_TRUE(d.plan.empty());
  EXPECT_FALSE(d.fixable());
  EXPECT_EQ(ckpt::command_line(d), "");
}

TEST(Why, SurvivesStrangeNames) {
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += "a.";
  Parts strange = {{deep + "w", core::Shape{1}}, {"..", core::Shape{1}},
                   {".", core::Shape{2}},        {"module", core::Shape{1}},
                   {"module.", core::Shape{1}},  {std::string("nul\0l", 5), core::Shape{1}}};
  Diagnosis d = diagnose_for(build(strange), small_mlp());
  EXPECT_FALSE(d.loads());
  EXPECT_FALSE(diagnose(file_of(build(strange)), {}).description.empty());
  EXPECT_TRUE(diagnose_for(build(strange), strange).loads());
}

TEST(Why, StaysLinearOnManyKeys) {
  Parts many;
  for (int i = 0; i < 20000; ++i) many.push_back({"layers." + std::to_string(i) + ".proj.weight", core::Shape{2}});
  Diagnosis d = diagnose_for(build(many, with_prefix("model.module.")), many);
  EXPECT_TRUE(d.fixable());
  EXPECT_EQ(d.after.keys, many.size());
}

TEST(Why, RefusesAPlanMadeForAnotherFile) {
  ckpt::Checkpoint broken = file_of(build(small_gpt(2)));
  Diagnosis d = diagnose(broken, {.wanted = {wanted(small_nanogpt(2))}});
  ASSERT_FALSE(d.plan.empty());
  EXPECT_THROW(ckpt::apply_fix(file_of(build(small_mlp())), d.plan), core::Error);
}

TEST(Why, WritesOneLineThatAShellUnderstands) {
  ckpt::Checkpoint broken = file_of(build(small_mlp(), with_prefix("a.module.")));
  Diagnosis d = diagnose(broken, {.wanted = {wanted(small_mlp())}}, "runs/my net.pth");
  EXPECT_EQ(ckpt::command_line(d, {.options = {{"--for", "mlp keys.txt"}}}),
            "ckpt fix 'runs/my net.pth' --for 'mlp keys.txt' -o 'runs/my net.fixed.pth'");
}

TEST(Why, WritesTheLineOfPython) {
  auto python = [](const Naming& naming, Value (*around)(Value)) {
    return ckpt::python_line(diagnose_for(around(build(small_mlp(), naming)), small_mlp()));
  };
  auto flat = [](Value value) { return value; };
  auto nested = [](Value value) { return dict_of({{"model", value}, {"epoch", Value::integer(1)}}); };
  EXPECT_EQ(python(with_prefix("module."), flat),
            "sd = torch.load('net.pth'); model.load_state_dict({k.removeprefix('module.'): v for k, v in sd.items()})");
  EXPECT_EQ(python({}, nested), "model.load_state_dict(torch.load('net.pth')['model'])");
  EXPECT_THAT(python(with_changes({{"fc", "block.module.fc"}}), flat), HasSubstr("re.sub"));
}

TEST(Why, TheLineOfPythonRenamesWithoutATargetToo) {
  auto python = [](const Naming& naming, Value (*around)(Value)) {
    return ckpt::python_line(diagnose(file_of(around(build(small_mlp(), naming))), {}, "net.pth"));
  };
  auto flat = [](Value value) { return value; };
  auto nested = [](Value value) { return dict_of({{"model", value}, {"epoch", Value::integer(1)}}); };
  EXPECT_EQ(python(with_prefix("module."), flat),
            "sd = torch.load('net.pth'); state_dict = {k.removeprefix('module.'): v for k, v in sd.items()}");
  EXPECT_EQ(python(with_prefix("module."), nested),
            "sd = torch.load('net.pth')['model']; state_dict = {k.removeprefix('module.'): v for k, v in sd.items()}");
  EXPECT_EQ(python({}, nested), "state_dict = torch.load('net.pth')['model']");
}

TEST(Why, MovesTagsOfAbsentDevicesOnly) {
  ckpt::Checkpoint file = file_of(build(small_mlp(), {}, "cuda:1"));
  EXPECT_TRUE(diagnose(file, {.wanted = {wanted(small_mlp())}, .cuda_devices = 2}).loads());
  Diagnosis d = diagnose(file, {.wanted = {wanted(small_mlp())}, .cuda_devices = 1});
  ASSERT_EQ(d.causes.size(), 1u);
  EXPECT_THAT(d.causes[0].evidence,
              ElementsAre("Attempting to deserialize object on CUDA device 1 but torch.cuda.device_count() is 1. "
                          "Please use torch.load with map_location to map your storages to an existing device."));
  EXPECT_EQ(ckpt::python_line(d), "model.load_state_dict(torch.load('net.pth', map_location='cpu'))");
}

TEST(Why, NamesTheDictThatIsTakenTogetherWithTheOthersThatFit) {
  Value root = dict_of({{"model", build(small_mlp(), with_prefix("module."))},
                        {"ema", build(small_mlp())},
                        {"other", build(small_bert())},
                        {"epoch", Value::integer(1)}});
  Diagnosis d = diagnose_for(root, small_mlp());
  EXPECT_EQ(d.plan.steps.front().at, "ema");
  EXPECT_THAT(d.notes, testing::Contains("'ema' and 'model' both fit the model; 'ema' is taken, name another as "
                                         "FILE::model"));
  Value one = dict_of({{"model", build(small_mlp())}, {"other", build(small_bert())}});
  EXPECT_THAT(diagnose_for(one, small_mlp()).notes, testing::IsEmpty());
}

namespace {

Value object_of(const std::string& symbol, Value args, Value state = {}) {
  ckpt::Object object;
  object.symbol = symbol;
  object.form = args.is_null() ? ckpt::Object::Form::global : ckpt::Object::Form::instance;
  object.args = std::move(args);
  object.has_state = !state.is_null();
  object.state = std::move(state);
  return Value::object(std::move(object));
}

/// A tensor of a program of two processes as torch.save writes it from one of them.
Value distributed_tensor(std::int64_t rank, const std::string& placement) {
  Value mesh = object_of("torch.distributed.device_mesh.DeviceMesh", Value::tuple({}),
                         dict_of({{"_rank", Value::integer(rank)},
                                  {"_flatten_rank_map", Value::tuple({Value::integer(0), Value::integer(1)})}}));
  Value spec =
      object_of("torch.distributed.tensor._dtensor_spec.DTensorSpec", Value::tuple({}),
                dict_of({{"mesh", mesh}, {"placements", Value::tuple({object_of(placement, Value::tuple({}))})}}));
  Value local = Value::tensor(entry_of({"local", core::Shape{2, 3}}));
  return object_of("torch._tensor._rebuild_from_type_v2",
                   Value::tuple({object_of("torch.distributed.tensor.DTensor", {}),
                                 Value::tuple({Value(), dict_of({{"_local_tensor", local}, {"_spec", spec}})})}));
}

}  // namespace

TEST(Why, SaysWhichRankSavedAPartOfTheModel) {
  Value root = dict_of({{"fc1.weight", distributed_tensor(1, "torch.distributed.tensor.placement_types.Shard")},
                        {"steps", Value::tensor(entry_of({"steps", core::Shape{}}))}});
  for (const ckpt::WhyOptions& options : {ckpt::WhyOptions{}, ckpt::WhyOptions{.wanted = {wanted(small_mlp())}}}) {
    Diagnosis d = diagnose(file_of(root), options);
    ASSERT_EQ(d.causes.size(), 1u);
    EXPECT_EQ(d.causes[0].kind, CauseKind::rank_part);
    EXPECT_THAT(d.causes[0].text, HasSubstr("rank 1 of 2"));
    EXPECT_FALSE(d.loads());
    EXPECT_EQ(ckpt::command_line(d), "");
    EXPECT_EQ(ckpt::python_line(d), "");
  }
  Value whole = dict_of({{"fc1.weight", distributed_tensor(1, "torch.distributed.tensor.placement_types.Replicate")}});
  for (const ckpt::Cause& cause : diagnose(file_of(whole), {}).causes) EXPECT_NE(cause.kind, CauseKind::rank_part);
}
