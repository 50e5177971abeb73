// Adapters extracted from two models: the change they stand for, how layers are stored, what they hold whole, and what
// PEFT is told about names.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "libckpt/ckpt.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/temp_dir.h"

using ckpt::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using namespace test;

namespace {

using Floats = std::vector<float>;

Floats random_floats(std::size_t count, unsigned seed) {
  std::mt19937 numbers(seed);
  std::uniform_real_distribution<float> some(-1, 1);
  Floats out(count);
  for (float& value : out) value = some(numbers);
  return out;
}

/// A matrix of rank `rank`.
Floats low_rank(std::size_t rows, std::size_t columns, std::size_t rank, unsigned seed) {
  const Floats left = random_floats(rows * rank, seed);
  const Floats right = random_floats(rank * columns, seed + 1);
  Floats out(rows * columns);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < rank; ++k) {
      for (std::size_t j = 0; j < columns; ++j) out[i * columns + j] += left[i * rank + k] * right[k * columns + j];
    }
  }
  return out;
}

Floats sum(const Floats& a, const Floats& b) {
  Floats out = a;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += b[i];
  return out;
}

Value shaped(const core::Shape& shape, const Floats& values) {
  auto entry = std::make_shared<ckpt::Entry>(float_entry(values));
  entry->shape = shape;
  return Value::tensor(entry);
}

ckpt::Checkpoint of(Value root) {
  ckpt::Checkpoint out;
  out.root = std::move(root);
  return out;
}

Floats values_of(const ckpt::Checkpoint& checkpoint, const std::string& name) {
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
    if (named.name != name) continue;
    const core::ByteVector bytes = ckpt::read_all(*named.entry->bytes);
    Floats out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

double largest_gap(const Floats& a, const Floats& b) {
  EXPECT_EQ(a.size(), b.size());
  double gap = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    gap = std::max(gap, static_cast<double>(std::fabs(a[i] - b[i])));
  }
  return gap;
}

std::vector<std::string> names_of(const ckpt::Checkpoint& checkpoint) {
  std::vector<std::string> out;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) out.push_back(named.name);
  return out;
}

std::string config_of(const ckpt::HubModel& model) {
  return std::string(core::as_text(model.files.at(0).second));
}

std::vector<std::string> texts_in(const ckpt::HubModel& model, const char* key) {
  std::vector<std::string> out;
  const ckpt::JsonDocument json = ckpt::JsonDocument::parse(config_of(model));
  for (const ckpt::JsonView& text : json.root().at(key).items()) out.emplace_back(text.as_text());
  return out;
}

class LoraExtract : public testing::Test {
 protected:
  ckpt::HubModel extract(const ckpt::Checkpoint& base, const ckpt::Checkpoint& tuned,
                         const ckpt::ExtractLoraOptions& options) {
    return ckpt::extract_lora(base, tuned, options, &report_);
  }

  /// The adapter written, read and added to the base.
  ckpt::Checkpoint merged(const ckpt::Checkpoint& base, const ckpt::HubModel& model) {
    ckpt::save_hub_model(model, dir_.path() / "adapter", {.overwrite = true, .durable = false});
    return ckpt::merge_lora(base, ckpt::open_lora(dir_.path() / "adapter"));
  }

  TempDir dir_;
  ckpt::ExtractLoraReport report_;
};

TEST_F(LoraExtract, HoldsAChangeOfThatRankWhole) {
  const Floats base = random_floats(40 * 30, 1);
  const Floats tuned = sum(base, low_rank(40, 30, 3, 2));
  const ckpt::Checkpoint old = of(dict({{"a.fc.weight", shaped({40, 30}, base)}}));
  const ckpt::Checkpoint now = of(dict({{"a.fc.weight", shaped({40, 30}, tuned)}}));
  const ckpt::HubModel model = extract(old, now, {.rank = 3});
  EXPECT_THAT(names_of(model.weights),
              ElementsAre("base_model.model.a.fc.lora_A.weight", "base_model.model.a.fc.lora_B.weight"));
  EXPECT_LT(largest_gap(values_of(merged(old, model), "a.fc.weight"), tuned), 2e-6);
  EXPECT_LT(report_.error, 1e-6);
  EXPECT_THAT(texts_in(model, "target_modules"), ElementsAre("fc"));
}

TEST_F(LoraExtract, LeavesOverWhatIsBelowTheLargestDirections) {
  // Singular values 5, 4, 2, 1: rank 2 leaves sqrt(4 + 1) of sqrt(25 + 16 + 4 + 1).
  Floats change(12 * 4);
  const float sizes[] = {2, 5, 1, 4};
  for (std::size_t i = 0; i < 4; ++i) change[(2 * i + 3) * 4 + i] = sizes[i];
  const ckpt::Checkpoint old = of(dict({{"fc.weight", shaped({12, 4}, Floats(48))}}));
  const ckpt::Checkpoint now = of(dict({{"fc.weight", shaped({12, 4}, change)}}));
  const ckpt::HubModel model = extract(old, now, {.rank = 2});
  ASSERT_EQ(report_.layers.size(), 1U);
  EXPECT_NEAR(report_.layers[0].norm, std::sqrt(46.0), 1e-6);
  EXPECT_NEAR(report_.layers[0].error, std::sqrt(5.0 / 46.0), 1e-6);
  const Floats back = values_of(merged(old, model), "fc.weight");
  EXPECT_NEAR(back[5 * 4 + 1], 5, 1e-5);
  EXPECT_NEAR(back[9 * 4 + 3], 4, 1e-5);
  EXPECT_NEAR(back[3 * 4], 0, 1e-5);
}

TEST_F(LoraExtract, SeesDifferencesThatSinglePrecisionDoesNot) {
  auto doubles = [](std::vector<double> values) {
    auto entry = std::make_shared<ckpt::Entry>();
    entry->dtype = core::DType::f64;
    entry->shape = {2, 2};
    core::ByteVector bytes;
    core::append(bytes, std::as_bytes(std::span(values)));
    entry->bytes = ckpt::memory_source(std::move(bytes));
    return of(dict({{"fc.weight", Value::tensor(entry)}}));
  };
  extract(doubles({1, 1, 1, 1}), doubles({1 + 1e-12, 1, 1, 1}), {.rank = 1});
  EXPECT_NEAR(report_.layers.at(0).norm, 1e-12, 1e-15);
}

TEST_F(LoraExtract, ScalesFactorsByAlpha) {
  const Floats tuned = low_rank(6, 5, 2, 3);
  const ckpt::Checkpoint old = of(dict({{"fc.weight", shaped({6, 5}, Floats(30))}}));
  const ckpt::Checkpoint now = of(dict({{"fc.weight", shaped({6, 5}, tuned)}}));
  const ckpt::HubModel model = extract(old, now, {.rank = 2, .alpha = 32});
  EXPECT_THAT(config_of(model), HasSubstr("\"lora_alpha\": 32,"));
  EXPECT_LT(largest_gap(values_of(merged(old, model), "fc.weight"), tuned), 2e-6);
}

TEST_F(LoraExtract, FillsFactorsOfSmallLayersWithZeros) {
  const Floats tuned = random_floats(2 * 3, 3);
  const ckpt::Checkpoint old = of(dict({{"fc.weight", shaped({2, 3}, Floats(6))}}));
  const ckpt::Checkpoint now = of(dict({{"fc.weight", shaped({2, 3}, tuned)}}));
  const ckpt::HubModel model = extract(old, now, {.rank = 8});
  EXPECT_EQ(values_of(model.weights, "base_model.model.fc.lora_A.weight").size(), 24U);
  EXPECT_LT(largest_gap(values_of(merged(old, model), "fc.weight"), tuned), 1e-6);
}

TEST_F(LoraExtract, TakesConvolutions) {
  const Floats base = random_floats(4 * 3 * 2 * 2, 1);
  const Floats tuned = sum(base, low_rank(4, 12, 2, 5));
  const ckpt::Checkpoint old = of(dict({{"conv.weight", shaped({4, 3, 2, 2}, base)}}));
  const ckpt::Checkpoint now = of(dict({{"conv.weight", shaped({4, 3, 2, 2}, tuned)}}));
  const ckpt::HubModel model = extract(old, now, {.rank = 2});
  std::vector<core::Shape> shapes;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(model.weights.root)) shapes.push_back(named.entry->shape);
  EXPECT_THAT(shapes, ElementsAre(core::Shape{2, 3, 2, 2}, core::Shape{4, 2, 1, 1}));
  EXPECT_LT(largest_gap(values_of(merged(old, model), "conv.weight"), tuned), 2e-6);
}

TEST_F(LoraExtract, TurnsLayersThatGpt2StoresTheOtherWay) {
  const Floats attention = random_floats(4 * 12, 1);
  const Floats square = random_floats(4 * 4, 2);
  const Floats tuned = sum(square, low_rank(4, 4, 1, 5));
  auto model_of = [&](const Floats& projection) {
    return of(dict({{"h.0.attn.c_attn.weight", shaped({4, 12}, attention)},
                    {"h.0.attn.c_proj.weight", shaped({4, 4}, projection)}}));
  };
  const ckpt::HubModel model = extract(model_of(square), model_of(tuned), {.rank = 1});
  EXPECT_THAT(config_of(model), HasSubstr("\"fan_in_fan_out\": true"));
  EXPECT_LT(largest_gap(values_of(merged(model_of(square), model), "h.0.attn.c_proj.weight"), tuned), 2e-6);
}

/// Two blocks of two layers, a norm, an embedding and a parameter that is none of a layer; `change` is added to all.
Value small_model(float change) {
  auto ones = [&](const core::Shape& shape, float value) {
    return shaped(shape, Floats(core::try_numel(shape.span()).value(), value + change));
  };
  return dict({{"embed_tokens.weight", ones({5, 4}, 1)},
               {"layers.0.fc.weight", ones({4, 4}, 2)},
               {"layers.0.fc.bias", ones({4}, 3)},
               {"layers.0.norm.weight", ones({4}, 4)},
               {"layers.0.norm.bias", ones({4}, 5)},
               {"cls_token", ones({1, 4}, 6)}});
}

TEST_F(LoraExtract, NamesWhatItDoesNotHold) {
  extract(of(small_model(0)), of(small_model(1)), {.rank = 1});
  EXPECT_THAT(report_.left_out, ElementsAre("embed_tokens.weight", "layers.0.fc.bias", "layers.0.norm.weight",
                                            "layers.0.norm.bias", "cls_token"));
  EXPECT_THAT(report_.whole, IsEmpty());
}

TEST_F(LoraExtract, HoldsTheRestWholeWhereAsked) {
  const ckpt::HubModel model = extract(of(small_model(0)), of(small_model(1)), {.rank = 1, .whole = true});
  EXPECT_THAT(report_.left_out, ElementsAre("cls_token"));
  EXPECT_THAT(names_of(model.weights),
              ElementsAre("base_model.model.layers.0.fc.lora_A.weight", "base_model.model.layers.0.fc.lora_B.weight",
                          "base_model.model.embed_tokens.weight", "base_model.model.layers.0.fc.base_layer.bias",
                          "base_model.model.layers.0.norm.weight", "base_model.model.layers.0.norm.bias"));
  EXPECT_THAT(texts_in(model, "modules_to_save"), ElementsAre("embed_tokens", "layers.0.norm"));
  EXPECT_THAT(config_of(model), HasSubstr("\"bias\": \"lora_only\""));
  const ckpt::Checkpoint back = merged(of(small_model(0)), model);
  for (const char* name : {"embed_tokens.weight", "layers.0.fc.weight", "layers.0.fc.bias", "layers.0.norm.bias"}) {
    EXPECT_LT(largest_gap(values_of(back, name), values_of(of(small_model(1)), name)), 1e-6) << name;
  }
}

TEST_F(LoraExtract, KeepsToWhatIsSelected) {
  extract(of(small_model(0)), of(small_model(1)),
          {.rank = 1, .tensors = {.include = {}, .exclude = {"*norm*"}}, .whole = true});
  EXPECT_THAT(report_.left_out, ElementsAre("layers.0.norm.weight", "layers.0.norm.bias", "cls_token"));
  try {
    extract(of(small_model(0)), of(small_model(1)), {.tensors = {.include = {}, .exclude = {"*nrom*"}}});
    ADD_FAILURE();
  } catch (const core::Error& error) {
    EXPECT_EQ(error.code(), core::ErrorCode::key);
    EXPECT_STREQ(error.what(), "no tensor of the base matches '*nrom*'");
  }
}

TEST_F(LoraExtract, TakesAnOutputLayerTiedToAnEmbeddingForNoLayer) {
  auto model_of = [](float value) {
    const Value table = shaped({3, 2}, Floats(6, value));
    return of(dict({{"wte.weight", table}, {"fc.weight", shaped({2, 2}, Floats(4, value))}, {"head.weight", table}}));
  };
  extract(model_of(1), model_of(2), {.rank = 1});
  EXPECT_THAT(report_.left_out, ElementsAre("wte.weight", "head.weight"));
}

TEST_F(LoraExtract, SaysWhichTiesPeftDoesNotKeep) {
  auto model_of = [](float value) {
    return of(
        dict({{"wte.weight", shaped({3, 2}, Floats(6, value))}, {"fc.weight", shaped({2, 2}, Floats(4, value))}}));
  };
  extract(model_of(1), model_of(2), {.rank = 1, .whole = true});
  EXPECT_THAT(report_.notes, ElementsAre(HasSubstr("'wte' is held whole")));
}

/// What target_modules says when the layers of `changed` differ in a model of `names`.
std::string targets(const std::vector<std::string>& names, const std::vector<std::string>& changed) {
  std::vector<std::pair<std::string, Value>> old, now;
  for (const std::string& name : names) {
    const bool differs = std::ranges::find(changed, name) != changed.end();
    old.emplace_back(name + ".weight", shaped({2, 2}, {1, 2, 3, 4}));
    now.emplace_back(name + ".weight", shaped({2, 2}, {differs ? 9.0F : 1.0F, 2, 3, 4}));
  }
  const ckpt::HubModel model = ckpt::extract_lora(of(dict(old)), of(dict(now)), {.rank = 1});
  const ckpt::JsonDocument json = ckpt::JsonDocument::parse(config_of(model));
  const ckpt::JsonView value = json.root().at("target_modules");
  if (value.is(ckpt::JsonView::Kind::text)) return std::string(value.as_text());
  return core::join(texts_in(model, "target_modules"), " ");
}

TEST_F(LoraExtract, TellsPeftTheLayersAndNoOthers) {
  const std::vector<std::string> all = {"a.q", "a.v", "b.q", "b.v"};
  EXPECT_EQ(targets(all, {"a.q", "b.q"}), "q");
  EXPECT_EQ(targets(all, {"a.q", "b.q", "b.v"}), "b.v q");
  // A number is also the name of layers without tensors.
  EXPECT_EQ(targets({"net.0", "net.2"}, {"net.0", "net.2"}), "net.0 net.2");
  // PEFT would take enc.a.q for a.q.
  EXPECT_EQ(targets({"a.q", "enc.a.q"}, {"a.q"}), "a\\.q");
  // And the module "fc" that is around another.
  EXPECT_EQ(targets({"x.fc", "y.fc.up"}, {"x.fc"}), "x.fc");
}

TEST_F(LoraExtract, AnEmptyWeightIsUnchanged) {
  const Value empty = shaped({0, 4}, {});
  const ckpt::Checkpoint base = of(dict({{"a.weight", shaped({2, 2}, Floats(4))}, {"none.weight", empty}}));
  const ckpt::Checkpoint tuned = of(dict({{"a.weight", shaped({2, 2}, Floats(4, 1))}, {"none.weight", empty}}));
  ckpt::ExtractLoraReport report;
  ckpt::extract_lora(base, tuned, {.rank = 1}, &report);
  EXPECT_EQ(report.layers.size(), 1U);
  EXPECT_EQ(report.unchanged, 1U);
}

TEST_F(LoraExtract, RefusesWhatItCannotUse) {
  const ckpt::Checkpoint base = of(small_model(0));
  auto message = [&](const ckpt::Checkpoint& tuned, const ckpt::ExtractLoraOptions& options) -> std::string {
    try {
      extract(base, tuned, options);
    } catch (const core::Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(base, {.rank = 0}), HasSubstr("the rank is 0"));
  EXPECT_THAT(message(base, {.rank = 1, .alpha = -1}), HasSubstr("alpha"));
  for (double alpha : {1e-300, 1e300}) {
    EXPECT_THAT(message(base, {.rank = 1, .alpha = alpha}), HasSubstr("factors in float32 allow 1e-09 to 1e+09"));
  }
  EXPECT_THAT(message(base, {.rank = 1}), HasSubstr("no layer differs"));
  EXPECT_THAT(message(of(dict({{"other.weight", tensor({1})}})), {.rank = 1}), HasSubstr("no layer in common"));
  EXPECT_THAT(message(of(dict({{"layers.0.fc.weight", shaped({2, 4}, Floats(8))}})), {.rank = 1}),
              HasSubstr("'layers.0.fc.weight': has the shape [4, 4] in the base and [2, 4]"));
  const ckpt::Checkpoint endless = of(dict({{"layers.0.fc.weight", shaped({4, 4}, Floats(16, INFINITY))}}));
  EXPECT_THAT(message(endless, {.rank = 1}), HasSubstr("not finite"));
}

}  // namespace
