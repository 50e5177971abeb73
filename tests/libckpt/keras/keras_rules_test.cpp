#include "libckpt/keras/keras_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "libckpt/io/byte_source.h"
#include "libckpt/origin.h"
#include "libcore/base/error.h"

using ckpt::Checkpoint;
using ckpt::KerasRules;
using ckpt::Value;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

using Tensors = std::vector<std::pair<std::string, core::Shape>>;

/// 0, 1, 2, ... in each tensor.
Value counting(const core::Shape& shape) {
  ckpt::Entry entry;
  entry.shape = shape;
  core::ByteVector bytes(entry.numel() * sizeof(float));
  for (std::size_t i = 0; i < entry.numel(); ++i) {
    const float value = static_cast<float>(i);
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  }
  entry.bytes = ckpt::memory_source(std::move(bytes));
  return Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)));
}

Checkpoint file(const Tensors& tensors, const std::string& config = "") {
  ckpt::Dict dict;
  for (const auto& [name, shape] : tensors) dict.items.emplace_back(Value::text(name), counting(shape));
  Checkpoint out;
  out.root = Value::dict(std::move(dict));
  if (!config.empty()) out.metadata.emplace_back("config.json", config);
  return out;
}

/// A Sequential of layers, each written as JSON.
std::string sequential(const std::string& layers) {
  return R"({"class_name": "Sequential", "config": {"layers": [)" + layers + "]}}";
}

std::string layer(const std::string& kind, const std::string& fields) {
  return R"({"class_name": ")" + kind + R"(", "config": {)" + fields + "}}";
}

std::vector<std::string> names(const Checkpoint& checkpoint) {
  std::vector<std::string> out;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
    std::string text = named.name + " [";
    for (std::size_t d = 0; d < named.entry->shape.size(); ++d) {
      text += (d == 0 ? "" : ", ") + std::to_string(named.entry->shape[d]);
    }
    out.push_back(text + "]");
  }
  return out;
}

std::vector<float> values(const Checkpoint& checkpoint, const std::string& key) {
  const core::ByteVector bytes = ckpt::read_all(*ckpt::value_at(checkpoint.root, key).as_entry().bytes);
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

Checkpoint converted(const Checkpoint& keras) {
  return ckpt::from_keras(keras, ckpt::keras_rules(keras));
}

}  // namespace

TEST(KerasRules, GoByNamesWhereTheFileSaysNothingOfItsLayers) {
  const Checkpoint keras = file({{"layers.conv2d.vars.0", {3, 3, 2, 4}},
                                 {"layers.conv2d.vars.1", {4}},
                                 {"layers.conv2d_1.vars.0", {3, 3, 4, 4}},
                                 {"layers.sequential.layers.dense.vars.0", {4, 2}},
                                 {"layers.lstm.cell.vars.0", {2, 12}},
                                 {"layers.lstm.cell.vars.1", {3, 12}}});
  EXPECT_THAT(names(converted(keras)),
              ElementsAre("conv2d.weight [4, 2, 3, 3]", "conv2d.bias [4]", "conv2d_1.weight [4, 4, 3, 3]",
                          "sequential.dense.weight [2, 4]", "lstm.weight_ih_l0 [12, 2]", "lstm.weight_hh_l0 [12, 3]"));
  EXPECT_THAT(ckpt::keras_rules(keras).notes, Contains(HasSubstr("says nothing of the model's layers")));
}

TEST(KerasRules, GiveLayersTheNamesThatTheyHaveInKeras) {
  Checkpoint keras = file({{"layers.conv2d.vars.0", {1, 1, 2, 4}}, {"layers.dense.vars.0", {2, 3}}});
  keras.metadata = {{"layers/conv2d/vars@name", "stem"}, {"layers/dense/vars@name", "to/top.1"}};
  EXPECT_THAT(names(converted(keras)), ElementsAre("stem.weight [4, 2, 1, 1]", "to_top_1.weight [3, 2]"));
}

TEST(KerasRules, TurnTheColumnsBehindAFlattenOfImages) {
  const std::string config =
      sequential(layer("Conv2D", R"("name": "c", "padding": "valid")") + "," + layer("Flatten", R"("name": "f")") +
                 "," + layer("Dropout", R"("name": "d")") + "," + layer("Dense", R"("name": "top")"));
  const Checkpoint keras = file({{"layers.conv2d.vars.0", {1, 1, 1, 2}}, {"layers.dense.vars.0", {6, 1}}}, config);
  const Checkpoint torch = converted(keras);
  EXPECT_EQ(values(torch, "top.weight"), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  EXPECT_THAT(ckpt::origin_of(torch), HasSubstr("'top': the columns are where torch's Flatten has the channels"));
}

TEST(KerasRules, LookForAFlattenOutsideOfAModelInside) {
  const std::string head =
      layer("Sequential", R"("name": "head", "layers": [)" + layer("Dense", R"("name": "top")") + "]");
  const std::string flat = layer("Conv2D", R"("name": "c")") + "," + layer("Flatten", R"("name": "f")");
  const Tensors tensors = {{"layers.conv2d.vars.0", {1, 1, 1, 2}}, {"layers.sequential.layers.dense.vars.0", {4, 1}}};
  EXPECT_EQ(values(converted(file(tensors, sequential(flat + "," + head))), "head.top.weight"),
            (std::vector<float>{0, 2, 1, 3}));
  const std::string pooled =
      layer("Conv2D", R"("name": "c")") + "," + layer("GlobalAveragePooling2D", R"("name": "p")");
  EXPECT_EQ(values(converted(file(tensors, sequential(pooled + "," + head))), "head.top.weight"),
            (std::vector<float>{0, 1, 2, 3}));
}

TEST(KerasRules, SayWhereTheColumnsAreNotKnown) {
  const std::string config =
      sequential(layer("Conv2D", R"("name": "c")") + "," + layer("Concatenate", R"("name": "k")") + "," +
                 layer("Flatten", R"("name": "f")") + "," + layer("Dense", R"("name": "top")"));
  const Checkpoint keras = file({{"layers.conv2d.vars.0", {1, 1, 1, 2}}, {"layers.dense.vars.0", {4, 1}}}, config);
  EXPECT_EQ(values(converted(keras), "top.weight"), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_THAT(ckpt::keras_rules(keras).notes, Contains(HasSubstr("'top': sees what Flatten makes of images")));
}

TEST(KerasRules, LeaveWhatTorchHasNoModuleFor) {
  const std::string config = sequential(layer("GRU", R"("name": "g", "reset_after": false)") + "," +
                                        layer("PReLU", R"("name": "p")") + "," + layer("Dense", R"("name": "d")"));
  const Checkpoint keras = file({{"layers.gru.cell.vars.0", {2, 9}},
                                 {"layers.gru.cell.vars.1", {3, 9}},
                                 {"layers.gru.cell.vars.2", {9}},
                                 {"layers.p_re_lu.vars.0", {3}},
                                 {"layers.dense.vars.0", {3, 1}},
                                 {"layers.dropout.seed_generator.vars.0", {2}},
                                 {"optimizer.vars.0", {}}},
                                config);
  const KerasRules way = ckpt::keras_rules(keras);
  EXPECT_EQ(way.layers, 1u);
  EXPECT_THAT(way.left, testing::SizeIs(4));
  EXPECT_THAT(way.states, ElementsAre("layers.dropout.seed_generator.vars.0", "optimizer.vars.0"));
  EXPECT_THAT(way.notes, Contains(HasSubstr("'g': no module of torch computes it")));
  EXPECT_THAT(names(ckpt::from_keras(keras, way)), Contains("layers.gru.cell.vars.2 [9]"));
}

TEST(KerasRules, AddBothBiasesOfALayerOnTheWayBack) {
  const Checkpoint keras = file(
      {{"layers.lstm.cell.vars.0", {1, 4}}, {"layers.lstm.cell.vars.1", {1, 4}}, {"layers.lstm.cell.vars.2", {4}}});
  Checkpoint torch = converted(keras);
  EXPECT_EQ(values(torch, "lstm.bias_hh_l0"), (std::vector<float>{0, 0, 0, 0}));
  ckpt::Dict trained = torch.root.as_dict();
  for (auto& [key, value] : trained.items) {
    if (key.as_text() == "lstm.bias_hh_l0") value = counting({4});
  }
  torch.root = Value::dict(std::move(trained));
  EXPECT_EQ(values(ckpt::to_keras(torch, keras), "layers.lstm.cell.vars.2"), (std::vector<float>{0, 2, 4, 6}));
}

TEST(KerasRules, KeepStatesOfRandomNumbersOfTheModelThatLoadsTheResult) {
  const Checkpoint keras =
      file({{"layers.dense.vars.0", {3, 1}}, {"layers.dropout.seed_generator.vars.0", {2}}, {"optimizer.vars.0", {1}}});
  Checkpoint torch = file({{"dense.weight", {1, 3}}, {"bn.num_batches_tracked", {1}}});
  EXPECT_THAT(names(ckpt::to_keras(torch, keras)),
              ElementsAre("layers.dense.vars.0 [3, 1]", "layers.dropout.seed_generator.vars.0 [2]"));
}

TEST(KerasRules, RefuseAStateDictOfAnotherModel) {
  const Checkpoint keras = file({{"layers.dense.vars.0", {3, 1}}, {"layers.dense.vars.1", {1}}});
  const auto message = [&](const Checkpoint& torch) {
    try {
      ckpt::to_keras(torch, keras);
    } catch (const core::Error& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_EQ(message(file({{"dense.weight", {1, 3}}})),
            "'layers.dense.vars.1' of the model of Keras would have no values");
  EXPECT_EQ(message(file({{"dense.weight", {1, 4}}, {"dense.bias", {1}}})),
            "'layers.dense.vars.0' would have the shape [4, 1], and the model of Keras has [3, 1]");
}

TEST(KerasRules, KnowTheNamesOfKerasBefore3) {
  const Checkpoint keras = file({{"conv2d_1.conv2d_1.kernel:0", {3, 3, 2, 4}},
                                 {"conv2d_1.conv2d_1.bias:0", {4}},
                                 {"dw.dw.depthwise_kernel:0", {3, 3, 4, 2}},
                                 {"inner.bn.gamma:0", {4}},
                                 {"inner.bn.beta:0", {4}},
                                 {"inner.bn.moving_mean:0", {4}},
                                 {"inner.bn.moving_variance:0", {4}},
                                 {"bi.bi.backward_gru.gru_cell_2.kernel:0", {2, 9}},
                                 {"bi.bi.backward_gru.gru_cell_2.recurrent_kernel:0", {3, 9}}});
  EXPECT_THAT(names(converted(keras)),
              testing::UnorderedElementsAre("conv2d_1.weight [4, 2, 3, 3]", "conv2d_1.bias [4]",
                                            "dw.weight [8, 1, 3, 3]", "inner.bn.weight [4]", "inner.bn.bias [4]",
                                            "inner.bn.running_mean [4]", "inner.bn.running_var [4]",
                                            "bi.weight_ih_l0_reverse [9, 2]", "bi.weight_hh_l0_reverse [9, 3]"));
  EXPECT_THROW(ckpt::to_keras(converted(keras), keras), core::Error);
}

TEST(KerasRules, ReadTheShapesOfFilesThatLie) {
  for (const Tensors& tensors :
       {Tensors{{"layers.dense.vars.0", {3}}}, Tensors{{"layers.conv2d.vars.0", {1}}},
        Tensors{{"layers.lstm.cell.vars.0", {}}, {"layers.lstm.cell.vars.1", {0, 0}}},
        Tensors{{"layers.batch_normalization.vars.0", {2, 2}}}, Tensors{{"layers.depthwise_conv2d.vars.0", {2}}},
        Tensors{{"vars.0", {2}}}, Tensors{{"fc.weight", {2, 2}}, {"fc.bias", {2}}}, Tensors{{"kernel:0", {2, 2}}}}) {
    EXPECT_THROW(ckpt::keras_rules(file(tensors)), core::Error) << tensors.front().first;
  }
}

TEST(KerasRules, DoWithoutAConfigurationThatIsNone) {
  for (const char* config : {"", "{", "[1, 2]", "{\"config\": {\"layers\": [3, null, {\"config\": 4}]}}",
                             "{\"class_name\": 3, \"config\": {\"layers\": {\"a\": 1}}}"}) {
    EXPECT_THAT(names(converted(file({{"layers.dense.vars.0", {3, 1}}}, config))), testing::SizeIs(1)) << config;
  }
}
