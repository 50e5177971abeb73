#include "libckpt/transform/publish.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "libcore/base/error.h"
#include "tests/libckpt/transform/views.h"

using ckpt::Publication;
using ckpt::Value;
using core::DType;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace test;

namespace {

core::Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error;
  }
  return {core::ErrorCode::internal, "no error"};
}

/// A model on a GPU in a wrapper, its average, an optimizer.
ckpt::Checkpoint training() {
  Value model = dict({{"module.fc.weight", tensor({1, 2}, "cuda:0")},
                      {"module.bn.weight", tensor({3}, "cuda:0")},
                      {"module.bn.running_mean", tensor({4}, "cuda:0")}});
  Value ema = dict(
      {{"n_averaged", tensor({7})}, {"module.fc.weight", tensor({1.5, 2.5})}, {"module.bn.weight", tensor({3.5})}});
  Value optimizer = dict({{"state", dict({{"0", state_dict({"exp_avg"})}})}, {"param_groups", Value::list({})}});
  return checkpoint(
      dict({{"epoch", Value::integer(3)}, {"model", model}, {"optimizer", optimizer}, {"model_ema", ema}}));
}

std::string fate_of(const Publication& publication, const std::string& part) {
  for (const ckpt::PublishPart& p : publication.parts) {
    if (p.name == part) return p.fate;
  }
  return "";
}

/// What pickle keeps of a torch.nn.Module.
Value module(std::vector<std::pair<std::string, Value>> parameters, std::vector<std::pair<std::string, Value>> buffers,
             std::vector<std::pair<std::string, Value>> children) {
  ckpt::Object object;
  object.symbol = "net.Module";
  object.form = ckpt::Object::Form::instance;
  object.state = dict({{"training", Value::boolean(true)},
                       {"_parameters", dict(std::move(parameters))},
                       {"_buffers", dict(std::move(buffers))},
                       {"_non_persistent_buffers_set", Value::set({Value::text("mask")})},
                       {"_modules", dict(std::move(children))}});
  object.has_state = true;
  return Value::object(std::move(object));
}

}  // namespace

TEST(Publish, TakesTheAverageCompletesItAndCleansUp) {
  Publication out = ckpt::publish(training());
  EXPECT_TRUE(out.is_average);
  EXPECT_EQ(out.source, "model_ema");
  EXPECT_THAT(names(out.checkpoint), ElementsAre("fc.weight", "bn.weight", "bn.running_mean"));
  EXPECT_THAT(values_at(out.checkpoint.root, "fc.weight"), ElementsAre(1.5, 2.5));
  EXPECT_THAT(values_at(out.checkpoint.root, "bn.running_mean"), ElementsAre(4));
  for (const ckpt::NamedEntry& named : ckpt::list_entries(out.checkpoint.root)) EXPECT_EQ(named.entry->location, "cpu");
  EXPECT_EQ(fate_of(out, "model_ema"), "published (moving average)");
  EXPECT_EQ(fate_of(out, "model"), "used to complete it");
  EXPECT_EQ(fate_of(out, "optimizer"), "left out");
  EXPECT_EQ(out.tensors, 3u);
  EXPECT_EQ(out.elements, 4u);
  EXPECT_EQ(out.bytes_after, 16u);
}

TEST(Publish, TakesTheModelWithoutTheAverageWhenTold) {
  Publication out = ckpt::publish(training(), {.ema = "off"});
  EXPECT_FALSE(out.is_average);
  EXPECT_THAT(values_at(out.checkpoint.root, "fc.weight"), ElementsAre(1, 2));
  EXPECT_EQ(fate_of(out, "model_ema"), "left out");
  EXPECT_FALSE(ckpt::publish(training(), {.at = "model"}).is_average);
  EXPECT_TRUE(ckpt::publish(training(), {.ema = "model_ema"}).is_average);
  EXPECT_EQ(error_of([] { ckpt::publish(training(), {.ema = "nothing"}); }).code(), core::ErrorCode::key);
  EXPECT_EQ(error_of([] { ckpt::publish(training(), {.at = "epoch"}); }).code(), core::ErrorCode::key);
}

TEST(Publish, FindsTheUsualNamesOfAverages) {
  for (const char* name :
       {"ema", "ema_state_dict", "state_dict_ema", "model_ema", "EMA", "params_ema", "swa_state_dict"}) {
    ckpt::Checkpoint file = checkpoint(dict({{"state_dict", state_dict({"w"})}, {name, dict({{"w", tensor({9})}})}}));
    EXPECT_TRUE(ckpt::publish(file).is_average) << name;
  }
  ckpt::Checkpoint nested =
      checkpoint(dict({{"model", state_dict({"w"})}, {"ema", dict({{"shadow", state_dict({"w"})}})}}));
  EXPECT_EQ(ckpt::publish(nested).source, "ema.shadow");
  ckpt::Checkpoint plain = checkpoint(dict({{"state_dict", state_dict({"w"})}, {"schema", state_dict({"w"})}}));
  EXPECT_FALSE(ckpt::publish(plain).is_average);
}

TEST(Publish, FindsAveragesInsideTheStateDict) {
  Value lit = dict({{"model.a.b", tensor({1})},
                    {"model.running_mean", tensor({2})},
                    {"model_ema.ab", tensor({10})},
                    {"model_ema.decay", tensor({0.5})},
                    {"first_stage.w", tensor({3})}});
  Publication out = ckpt::publish(checkpoint(dict({{"state_dict", lit}})));
  EXPECT_TRUE(out.is_average);
  EXPECT_THAT(names(out.checkpoint), ElementsAre("model.a.b", "model.running_mean", "first_stage.w"));
  EXPECT_THAT(values_at(out.checkpoint.root, "model.a.b"), ElementsAre(10));
  out = ckpt::publish(checkpoint(dict({{"state_dict", lit}})), {.ema = "off"});
  EXPECT_THAT(values_at(out.checkpoint.root, "model.a.b"), ElementsAre(1));
  Value online = dict({{"initted", tensor({1})}, {"online_model.w", tensor({1})}, {"ema_model.w", tensor({2})}});
  EXPECT_THAT(values_at(ckpt::publish(checkpoint(online)).checkpoint.root, "w"), ElementsAre(2));
}

TEST(Publish, ShadowsWithoutNamesFollowTheModel) {
  auto file = [](Value shadow) {
    Value model = dict({{"a", tensor({1, 2})}, {"bn.running_mean", tensor({3})}, {"b", tensor({4})}});
    Value ema =
        dict({{"decay", Value::real(0.9)}, {"shadow_params", Value::list({tensor({10, 20}), std::move(shadow)})}});
    return checkpoint(dict({{"model", model}, {"ema", ema}}));
  };
  Publication out = ckpt::publish(file(tensor({40})));
  EXPECT_THAT(names(out.checkpoint), ElementsAre("a", "bn.running_mean", "b"));
  EXPECT_THAT(values_at(out.checkpoint.root, "b"), ElementsAre(40));
  EXPECT_THAT(values_at(out.checkpoint.root, "bn.running_mean"), ElementsAre(3));
  EXPECT_EQ(error_of([&] { ckpt::publish(file(tensor({4, 5}))); }).code(), core::ErrorCode::refused);
  EXPECT_FALSE(ckpt::publish(file(tensor({4, 5})), {.ema = "off"}).is_average);
}

TEST(Publish, ListsTheCandidatesInsteadOfGuessing) {
  ckpt::Checkpoint gan = checkpoint(dict({{"generator", state_dict({"a"})}, {"discriminator", state_dict({"b"})}}));
  core::Error error = error_of([&] { ckpt::publish(gan); });
  EXPECT_EQ(error.code(), core::ErrorCode::usage);
  EXPECT_THAT(error.message(), HasSubstr("'generator' (1 tensor), 'discriminator' (1 tensor)"));
  ckpt::Checkpoint two = checkpoint(dict({{"ema", state_dict({"a"})}, {"swa", state_dict({"a"})}}));
  EXPECT_THAT(error_of([&] { ckpt::publish(two); }).message(), HasSubstr("several averages"));
  EXPECT_EQ(error_of([] {
              ckpt::publish(checkpoint(dict({{"epoch", Value::integer(1)}})));
            }).code(),
            core::ErrorCode::key);
}

TEST(Publish, ReadsAPickledModuleAsItsStateDict) {
  Value inner = module({{"weight", tensor({1, 2})}}, {{"mean", tensor({3})}, {"mask", tensor({4})}}, {});
  ckpt::Checkpoint file =
      checkpoint(dict({{"epoch", Value::integer(1)},
                       {"model", module({{"scale", tensor({5})}, {"bias", Value()}}, {}, {{"fc", inner}})}}));
  Publication out = ckpt::publish(file);
  EXPECT_EQ(out.source, "model");
  EXPECT_THAT(names(out.checkpoint), ElementsAre("scale", "fc.weight", "fc.mean"));
}

TEST(Publish, TensorsArePlainAndTrimmed) {
  auto storage = floats_storage(1000);
  ckpt::Entry parameter = view(storage, {4}, {1}, 8).as_entry();
  parameter.parameter = true;
  parameter.requires_grad = true;
  Publication out =
      ckpt::publish(checkpoint(dict({{"w", Value::tensor(std::make_shared<const ckpt::Entry>(parameter))}})));
  const ckpt::Entry& entry = ckpt::value_at(out.checkpoint.root, "w").as_entry();
  EXPECT_FALSE(entry.parameter || entry.requires_grad);
  EXPECT_EQ(entry.view->storage->bytes->size(), 16u);
  EXPECT_EQ(out.bytes_before, 4000u);
  EXPECT_EQ(out.bytes_after, 16u);
}

TEST(Publish, CastKeepsNormsUnlessTold) {
  auto types = [](const Publication& out) {
    std::vector<std::string> names;
    for (const ckpt::NamedEntry& named : ckpt::list_entries(out.checkpoint.root))
      names.emplace_back(core::short_name(named.entry->dtype));
    return names;
  };
  EXPECT_THAT(types(ckpt::publish(training(), {.to = DType::bf16})), ElementsAre("bf16", "f32", "f32"));
  EXPECT_THAT(types(ckpt::publish(training(), {.to = DType::bf16, .keep_norms = false})),
              ElementsAre("bf16", "bf16", "bf16"));
  EXPECT_THAT(types(ckpt::publish(training(), {.to = DType::bf16, .keep = {.include = {"fc.*"}}})),
              ElementsAre("f32", "f32", "f32"));
}

TEST(Publish, NamesTensorsWithNanAndOverflow) {
  float infinity = std::numeric_limits<float>::infinity();
  ckpt::Checkpoint file = checkpoint(
      dict({{"good", tensor({1})}, {"bad", tensor({1, NAN})}, {"big", tensor({1e6F})}, {"mask", tensor({-infinity})}}));
  ckpt::NonFinite found = ckpt::find_non_finite(ckpt::publish(file));
  EXPECT_THAT(found.nan, ElementsAre("bad"));
  EXPECT_THAT(found.infinite, ElementsAre("mask"));
  EXPECT_THAT(found.overflowed, ElementsAre());
  EXPECT_FALSE(found.none());
  found = ckpt::find_non_finite(ckpt::publish(file, {.to = DType::f16}));
  EXPECT_THAT(found.overflowed, ElementsAre("big"));
  EXPECT_THAT(found.infinite, ElementsAre("mask"));
}
