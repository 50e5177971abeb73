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
  EXPECT_THAT(ckpt::keras_rules(keras).notes, Contains(HasSubstr("'top': sees, or may see, what Flatten")));
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

namespace {

/// A layer of a functional model; each call is written as JSON.
std::string called(const std::string& kind, const std::string& name, const std::string& calls,
                   const std::string& fields = "") {
  return R"({"class_name": ")" + kind + R"(", "config": {"name": ")" + name + "\"" + fields +
         R"(}, "inbound_nodes": [)" + calls + "]}";
}

/// The call of one layer, or of several, on what other layers gave: "conv1", 0.
std::string call(const std::vector<std::pair<std::string, int>>& inputs) {
  std::string out;
  for (const auto& [name, index] : inputs) {
    out += (out.empty() ? "" : ", ") + (R"({"config": {"keras_history": [")" + name + "\", ") + std::to_string(index) +
           ", 0]}}";
  }
  return R"({"args": [[)" + out + "]]}";
}

std::string functional(const std::string& layers) {
  return R"({"class_name": "Functional", "config": {"layers": [)" + layers + "]}}";
}

std::vector<std::string> notes(const Tensors& tensors, const std::string& config) {
  return ckpt::keras_rules(file(tensors, config)).notes;
}

constexpr const char* kMaySee = ": sees, or may see, what Flatten or Reshape makes";

}  // namespace

TEST(KerasRules, FollowTheCallOfALayerThatIsUsedTwice) {
  const std::string config =
      functional(called("InputLayer", "x", "") + "," + called("Conv2D", "a", call({{"x", 0}})) + "," +
                 called("Conv2D", "b", call({{"x", 0}})) + "," +
                 called("Flatten", "f", call({{"a", 0}}) + "," + call({{"b", 0}})) + "," +
                 called("Dense", "of_a", call({{"f", 0}})) + "," + called("Dense", "of_b", call({{"f", 1}})));
  const Checkpoint torch = converted(file({{"layers.conv2d.vars.0", {1, 1, 1, 2}},
                                           {"layers.conv2d_1.vars.0", {1, 1, 1, 3}},
                                           {"layers.dense.vars.0", {6, 1}},
                                           {"layers.dense_1.vars.0", {6, 1}}},
                                          config));
  EXPECT_EQ(values(torch, "of_a.weight"), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(values(torch, "of_b.weight"), (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST(KerasRules, SayWhereOtherLayersLieBetweenAFlattenAndADenseLayer) {
  const Tensors tensors = {{"layers.conv2d.vars.0", {1, 1, 1, 2}}, {"layers.dense.vars.0", {8, 1}}};
  const std::string conv = called("InputLayer", "x", "") + "," + called("Conv2D", "c", call({{"x", 0}})) + ",";
  const std::string two = conv + called("Flatten", "f", call({{"c", 0}})) + "," +
                          called("Concatenate", "k", call({{"x", 0}, {"f", 0}})) + "," +
                          called("Dense", "top", call({{"k", 0}}));
  EXPECT_THAT(notes(tensors, functional(two)), Contains(HasSubstr(std::string("'top'") + kMaySee)));
  for (const char* kind : {"PReLU", "UnitNormalization"}) {
    const std::string between = layer("Conv2D", R"("name": "c")") + "," + layer("Flatten", R"("name": "f")") + "," +
                                layer(kind, R"("name": "p")") + "," + layer("Dense", R"("name": "top")");
    EXPECT_THAT(notes(tensors, sequential(between)), Contains(HasSubstr(kMaySee))) << kind;
  }
  const std::string reshaped = layer("Conv2D", R"("name": "c")") + "," +
                               layer("Reshape", R"("name": "r", "target_shape": [-1])") + "," +
                               layer("Dense", R"("name": "top")");
  EXPECT_THAT(notes(tensors, sequential(reshaped)), Contains(HasSubstr(kMaySee)));
  const std::string pooled = conv + called("GlobalAveragePooling2D", "p", call({{"c", 0}})) + "," +
                             called("Concatenate", "k", call({{"p", 0}, {"p", 0}})) + "," +
                             called("Dense", "top", call({{"k", 0}}));
  EXPECT_THAT(notes(tensors, functional(pooled)), IsEmpty());
}

TEST(KerasRules, SayThatSequencesOfFlattenedImagesKeepTheirColumns) {
  const auto each = [](const std::string& inner) {
    return layer("TimeDistributed", R"("name": "t", "layer": )" + inner);
  };
  const std::string config =
      sequential(each(layer("Conv2D", R"("name": "c")")) + "," + each(layer("Flatten", R"("name": "f")")) + "," +
                 layer("LSTM", R"("name": "l")"));
  const Tensors tensors = {{"layers.lstm.cell.vars.0", {8, 4}}, {"layers.lstm.cell.vars.1", {1, 4}}};
  EXPECT_THAT(notes(tensors, config), Contains(HasSubstr(std::string("'l'") + kMaySee)));
}

TEST(KerasRules, GoByTheOrderThatAFlattenGivesChannels) {
  const auto turned = [](const std::string& conv, const std::string& flatten) {
    const std::string config = sequential(layer("Conv2D", R"("name": "c", "data_format": ")" + conv + "\"") + "," +
                                          layer("Flatten", R"("name": "f", "data_format": ")" + flatten + "\"") + "," +
                                          layer("Dense", R"("name": "top")"));
    const Checkpoint keras = file({{"layers.conv2d.vars.0", {1, 1, 1, 2}}, {"layers.dense.vars.0", {4, 1}}}, config);
    return values(converted(keras), "top.weight") == std::vector<float>{0, 2, 1, 3};
  };
  EXPECT_TRUE(turned("channels_last", "channels_last"));
  EXPECT_TRUE(turned("channels_first", "channels_first"));
  EXPECT_FALSE(turned("channels_first", "channels_last"));
  EXPECT_FALSE(turned("channels_last", "channels_first"));
}

TEST(KerasRules, TakeNoOtherConvolutionForTheOneThatMadeTheChannels) {
  const std::string config = sequential(layer("ConvLSTM2D", R"("name": "c")") + "," +
                                        layer("Flatten", R"("name": "f")") + "," + layer("Dense", R"("name": "top")"));
  const Checkpoint keras = file({{"c.c.kernel:0", {1, 1, 1, 4}}, {"top.top.kernel:0", {8, 1}}}, config);
  EXPECT_EQ(values(converted(keras), "top.weight"), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(KerasRules, GoByTheNumbersOfWeights) {
  const std::string at = "layers.batch_normalization.vars.";
  const Checkpoint keras = file({{at + "3", {4}}, {at + "1", {2}}, {at + "0", {1}}, {at + "2", {3}}});
  EXPECT_THAT(
      names(converted(keras)),
      testing::UnorderedElementsAre("batch_normalization.weight [1]", "batch_normalization.bias [2]",
                                    "batch_normalization.running_mean [3]", "batch_normalization.running_var [4]"));
  const Checkpoint lacking = file({{"layers.conv2d.vars.1", {1, 1, 1, 1}}, {"layers.dense.vars.0", {3, 1}}});
  EXPECT_THAT(ckpt::keras_rules(lacking).left, ElementsAre("layers.conv2d.vars.1"));
}

TEST(KerasRules, LeaveLayersThatAreNotWhatTheyAreCalled) {
  const std::string dense = layer("Dense", R"("name": "d")");
  const Tensors tensors = {{"layers.dense.vars.0", {3, 1}}, {"layers.dense_1.vars.0", {3, 1}}};
  const std::string custom = R"({"class_name": "Dense", "registered_name": "mine>Dense", "config": {"name": "m"}})";
  EXPECT_THAT(ckpt::keras_rules(file(tensors, sequential(dense + "," + custom))).left,
              ElementsAre("layers.dense_1.vars.0"));
  const std::string biased = layer("Dense", R"("name": "e", "use_bias": true)");
  EXPECT_THAT(ckpt::keras_rules(file(tensors, sequential(dense + "," + biased))).left,
              ElementsAre("layers.dense_1.vars.0"));
  const Tensors twice = {
      {"layers.dense.vars.0", {3, 1}}, {"layers.dense_1.vars.0", {3, 1}}, {"layers.dense_2.vars.0", {3, 1}}};
  EXPECT_THAT(
      ckpt::keras_rules(file(twice, sequential(dense + "," + dense + "," + layer("Dense", R"("name": "e")")))).left,
      testing::UnorderedElementsAre("layers.dense.vars.0", "layers.dense_1.vars.0"));
}

TEST(KerasRules, LeaveNormsAlongOtherDimensionsThanTorchs) {
  const auto left = [](const std::string& fields, const std::string& rank) {
    const std::string config =
        sequential(R"({"class_name": "LayerNormalization", "config": {"name": "n")" + fields +
                   R"(}, "build_config": {"input_shape": )" + rank + "}}," + layer("Dense", R"("name": "d")"));
    const std::string at = "layers.layer_normalization.vars.";
    return ckpt::keras_rules(file({{at + "0", {3}}, {at + "1", {3}}, {"layers.dense.vars.0", {3, 1}}}, config)).left;
  };
  EXPECT_THAT(left("", "[null, 3, 3]"), IsEmpty());
  EXPECT_THAT(left(R"(, "axis": [-1])", "[null, 3, 3]"), IsEmpty());
  EXPECT_THAT(left(R"(, "axis": [2])", "[null, 3, 3]"), IsEmpty());
  EXPECT_THAT(left(R"(, "axis": [1])", "[null, 3, 3]"), testing::SizeIs(2));
  EXPECT_THAT(left(R"(, "axis": [-1], "rms_scaling": true)", "[null, 3, 3]"), testing::SizeIs(2));
}

TEST(KerasRules, SayWhichStepIsTheLastOfTwoDirections) {
  const Tensors weights = {{"layers.bidirectional.forward_layer.cell.vars.0", {2, 4}},
                           {"layers.bidirectional.forward_layer.cell.vars.1", {1, 4}},
                           {"layers.bidirectional.backward_layer.cell.vars.0", {2, 4}},
                           {"layers.bidirectional.backward_layer.cell.vars.1", {1, 4}}};
  const auto said = [&](const std::string& more) {
    const std::string lstm = layer("LSTM", R"("name": "f", "activation": "tanh")" + more);
    return notes(weights, sequential(layer("Bidirectional", R"("name": "b", "layer": )" + lstm)));
  };
  const auto last =
      Contains(testing::AllOf(HasSubstr("'b': gives its last step alone"), HasSubstr("h_n[-2], h_n[-1]")));
  EXPECT_THAT(said(""), last);
  EXPECT_THAT(said(R"(, "return_sequences": false)"), last);
  EXPECT_THAT(said(R"(, "return_sequences": true)"), IsEmpty());
}

TEST(KerasRules, SayWhatLayersComputeOtherwise) {
  const std::string lstm = layer("LSTM", R"("name": "f", "activation": "tanh")");
  const std::string config =
      sequential(layer("Embedding", R"("name": "e", "mask_zero": true)") + "," +
                 layer("Conv1D", R"("name": "c", "padding": "causal")") + "," +
                 layer("Bidirectional", R"("name": "b", "merge_mode": "sum", "layer": )" + lstm) + "," +
                 layer("Reshape", R"("name": "r", "target_shape": [2, 2, 2])") + "," +
                 layer("Conv2DTranspose", R"("name": "t", "padding": "same", "strides": [2, 2])"));
  const std::string both = "layers.bidirectional.";
  const std::vector<std::string> said = notes({{"layers.embedding.vars.0", {5, 2}},
                                               {"layers.conv1d.vars.0", {2, 2, 2}},
                                               {both + "forward_layer.cell.vars.0", {2, 4}},
                                               {both + "forward_layer.cell.vars.1", {1, 4}},
                                               {"layers.conv2d_transpose.vars.0", {3, 3, 1, 2}}},
                                              config);
  for (const char* text : {"'e': of mask_zero=True", "'c': of padding 'causal'", "'b': does not put its two directions",
                           "'r': makes images of features", "'t': of padding 'same' with a stride, Keras leaves out"}) {
    EXPECT_THAT(said, Contains(HasSubstr(text)));
  }
  EXPECT_THAT(notes({{"layers.lstm.cell.vars.0", {2, 4}}, {"layers.lstm.cell.vars.1", {1, 4}}}, ""),
              Contains(HasSubstr("does not say which activations")));
  EXPECT_THAT(notes({{"layers.layer_normalization.vars.0", {2}}, {"layers.layer_normalization.vars.1", {2}}}, ""),
              Contains(HasSubstr("does not say which eps")));
}

TEST(KerasRules, RefuseWeightsThatAreQuantised) {
  Checkpoint keras = file({{"layers.dense.vars.0", {8, 4}}, {"layers.dense.vars.1", {4}}});
  ckpt::Dict dict = keras.root.as_dict();
  ckpt::Entry kernel = dict.items[0].second.as_entry();
  kernel.dtype = core::DType::i8;
  kernel.bytes = ckpt::memory_source(core::ByteVector(32));
  dict.items[0].second = Value::tensor(std::make_shared<const ckpt::Entry>(std::move(kernel)));
  keras.root = Value::dict(std::move(dict));
  EXPECT_THROW(ckpt::keras_rules(keras), core::Error);  // the second is a scale and no bias
}

TEST(KerasRules, TakeTheBackwardLayerForOneLikeTheForwardLayer) {
  const std::string relu = layer("LSTM", R"("name": "f", "use_bias": false, "activation": "relu")");
  const std::string config =
      sequential(layer("Bidirectional", R"("name": "b", "layer": )" + relu) + "," + layer("Dense", R"("name": "d")"));
  const std::string at = "layers.bidirectional.";
  EXPECT_THAT(ckpt::keras_rules(file({{at + "forward_layer.cell.vars.0", {2, 4}},
                                      {at + "forward_layer.cell.vars.1", {1, 4}},
                                      {at + "backward_layer.cell.vars.0", {2, 4}},
                                      {at + "backward_layer.cell.vars.1", {1, 4}},
                                      {"layers.dense.vars.0", {3, 1}}},
                                     config))
                  .left,
              testing::SizeIs(4));
}

namespace {

/// Weights of attention with `heads` heads of `width`, as Keras 3 has them.
Tensors attention(const std::string& at, std::int64_t features, std::int64_t heads, std::int64_t width) {
  Tensors out;
  for (const char* part : {"query_dense", "key_dense", "value_dense"}) {
    out.emplace_back(at + "." + part + ".vars.0", core::Shape{features, heads, width});
    out.emplace_back(at + "." + part + ".vars.1", core::Shape{heads, width});
  }
  out.emplace_back(at + ".output_dense.vars.0", core::Shape{heads, width, features});
  out.emplace_back(at + ".output_dense.vars.1", core::Shape{features});
  return out;
}

constexpr const char* kAttention = "layers.multi_head_attention";

/// With one tensor of another shape, or, with none, without it; beside a layer that there are rules for.
std::string why_attention_stays(const std::string& key, const core::Shape& shape, const std::string& config = "") {
  Tensors tensors = attention(kAttention, 8, 2, 4);
  for (auto& [name, was] : tensors) {
    if (name == std::string(kAttention) + "." + key) was = shape;
  }
  std::erase_if(tensors, [](const auto& tensor) { return tensor.second.empty(); });
  tensors.emplace_back("layers.dense.vars.0", core::Shape{3, 1});
  const KerasRules way = ckpt::keras_rules(file(tensors, config));
  EXPECT_THAT(way.left, Contains(HasSubstr("multi_head_attention"))) << key;
  for (const std::string& note : way.notes) {
    if (note.ends_with(", so it stays as it is")) return note;
  }
  return "";
}

}  // namespace

TEST(KerasRules, MakeOneMatrixOfQueriesKeysAndValues) {
  const Checkpoint keras = file(attention(kAttention, 4, 2, 2));
  const Checkpoint torch = converted(keras);
  const std::string at = "multi_head_attention.";
  EXPECT_THAT(names(torch), testing::UnorderedElementsAre(at + "in_proj_weight [12, 4]", at + "in_proj_bias [12]",
                                                          at + "out_proj.weight [4, 4]", at + "out_proj.bias [4]"));
  const std::vector<float> kernel = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  const std::vector<float> all = values(torch, at + "in_proj_weight");
  EXPECT_EQ(std::vector<float>(all.begin(), all.begin() + 16), kernel);
  EXPECT_EQ(values(torch, at + "out_proj.weight"), kernel);
  EXPECT_THAT(ckpt::keras_rules(keras).notes,
              Contains(HasSubstr("attention has 2 heads, which torch's state dict does not say (num_heads=2, "
                                 "batch_first=True): 'multi_head_attention'")));
  const Checkpoint back = ckpt::to_keras(torch, keras);
  for (const auto& [name, shape] : attention(kAttention, 4, 2, 2)) {
    EXPECT_EQ(values(back, name), values(keras, name)) << name;
  }
}

TEST(KerasRules, KeepMatricesOfKeysAndValuesOfOtherSizesApart) {
  Tensors tensors = attention(kAttention, 8, 2, 4);
  tensors[2].second = {6, 2, 4};
  std::erase_if(tensors, [](const auto& tensor) { return tensor.first.ends_with("vars.1"); });
  const std::string at = "multi_head_attention.";
  EXPECT_THAT(names(converted(file(tensors))),
              testing::UnorderedElementsAre(at + "q_proj_weight [8, 8]", at + "k_proj_weight [8, 6]",
                                            at + "v_proj_weight [8, 8]", at + "out_proj.weight [8, 8]"));
}

TEST(KerasRules, SayWhatOfAttentionTorchCannotHold) {
  EXPECT_EQ(why_attention_stays("value_dense.vars.0", {8, 2, 6}),
            "'multi_head_attention': has weights whose shapes are not those of attention, so it stays as it is");
  Tensors wide = attention(kAttention, 8, 2, 4);
  wide[4].second = {8, 2, 6};
  wide[5].second = {2, 6};
  wide[6].second = {2, 6, 8};
  wide.emplace_back("layers.dense.vars.0", core::Shape{3, 1});
  EXPECT_THAT(
      ckpt::keras_rules(file(wide)).notes,
      Contains("'multi_head_attention': has heads of 4 for keys (key_dim) and of 6 for values (value_dim), which "
               "are one size in torch's attention, so it stays as it is"));
  Tensors grouped = attention(kAttention, 8, 2, 4);
  for (const std::size_t i : {2, 4}) grouped[i].second = {8, 1, 4};
  for (const std::size_t i : {3, 5}) grouped[i].second = {1, 4};
  grouped.emplace_back("layers.dense.vars.0", core::Shape{3, 1});
  EXPECT_THAT(ckpt::keras_rules(file(grouped)).notes, Contains(HasSubstr("has 2 heads for queries and 1 for keys")));
  EXPECT_THAT(why_attention_stays("query_dense.vars.0", {10, 2, 4}),
              HasSubstr("makes 2 heads of 4 out of 10 features, where torch's attention cuts those into heads"));
  EXPECT_THAT(why_attention_stays("key_dense.vars.0", {}), HasSubstr("is attention without its key.kernel"));
  EXPECT_THAT(why_attention_stays("value_dense.vars.1", {}), HasSubstr("is attention without its value.bias"));
  EXPECT_THAT(why_attention_stays("output_dense.vars.0", {3, 4, 8}), HasSubstr("shapes are not those of attention"));
  EXPECT_THAT(why_attention_stays("query_dense.vars.0", {0, 2, 4}), HasSubstr("shapes are not those of attention"));
  EXPECT_THAT(why_attention_stays("query_dense.vars.1", {8}), HasSubstr("shapes are not those of attention"));
  const std::string axes =
      sequential(layer("MultiHeadAttention", R"("name": "multi_head_attention", "attention_axes": [2])") + "," +
                 layer("Dense", R"("name": "d")"));
  EXPECT_THAT(why_attention_stays("", {}, axes), HasSubstr("attends along other axes (attention_axes)"));
}

TEST(KerasRules, RefuseAttentionOfOtherSizesOnTheWayBack) {
  const Checkpoint keras = file(attention(kAttention, 8, 2, 4));
  const auto message = [&](const Checkpoint& torch) {
    try {
      ckpt::to_keras(torch, keras);
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string at = "multi_head_attention.";
  const auto made = [&](const core::Shape& weight) {
    return file({{at + "in_proj_weight", weight},
                 {at + "in_proj_bias", {24}},
                 {at + "out_proj.weight", {8, 8}},
                 {at + "out_proj.bias", {8}}});
  };
  EXPECT_EQ(message(made({24, 8})), "");
  EXPECT_THAT(message(made({25, 8})), testing::AllOf(HasSubstr("multi_head_attention.in_proj_weight"),
                                                     HasSubstr("does not divide into 3 equal parts")));
  EXPECT_THAT(message(made({30, 8})), testing::AllOf(HasSubstr("multi_head_attention.v_proj_weight"),
                                                     HasSubstr("does not fit shape = [0, 2, 4]")));
  EXPECT_THAT(message(file({{at + "in_proj_weight", {24, 8}}, {at + "out_proj.weight", {8, 8}}})),
              HasSubstr("vars.1' of the model of Keras would have no values"));
}

TEST(KerasRules, TellAttentionByItsWeightsWhereNothingNamesIt) {
  EXPECT_THAT(names(converted(file(attention("block.own_name", 4, 2, 2)))),
              Contains("block.own_name.in_proj_weight [12, 4]"));
  Tensors named;
  for (const auto& [part, shape] :
       {std::pair("query", core::Shape{4, 2, 2}), std::pair("key", core::Shape{4, 2, 2}),
        std::pair("value", core::Shape{4, 2, 2}), std::pair("attention_output", core::Shape{2, 2, 4})}) {
    named.emplace_back("att.att." + std::string(part) + ".kernel:0", shape);
  }
  EXPECT_THAT(names(converted(file(named))),
              testing::UnorderedElementsAre("att.in_proj_weight [12, 4]", "att.out_proj.weight [4, 4]"));
  // A class with two names, whose weights are attributes without a property.
  Tensors grouped = attention("layers.grouped_query_attention", 4, 2, 2);
  for (auto& [name, shape] : grouped) name.replace(name.rfind(".", name.find("_dense")) + 1, 0, "_");
  EXPECT_THAT(names(converted(file(grouped, sequential(layer("GroupQueryAttention", R"("name": "g")"))))),
              Contains("g.in_proj_weight [12, 4]"));
  // Dense layers of somebody's own attention, which are called so too.
  EXPECT_THAT(names(converted(file({{"att.att.query.kernel:0", {4, 4}}, {"att.att.key.kernel:0", {4, 4}}}))),
              testing::UnorderedElementsAre("att.query.weight [4, 4]", "att.key.weight [4, 4]"));
}

TEST(KerasRules, TakeAnRnnForTheLayerOfItsCell) {
  const auto around = [](const std::string& cell) {
    return sequential(layer("RNN", R"("name": "steps", "cell": )" + cell) + "," + layer("Dense", R"("name": "d")"));
  };
  const std::string relu = layer("GRUCell", R"("name": "c", "reset_after": false)");
  const Tensors tensors = {{"layers.rnn.cell.vars.0", {2, 9}},
                           {"layers.rnn.cell.vars.1", {3, 9}},
                           {"layers.rnn.cell.vars.2", {2, 9}},
                           {"layers.dense.vars.0", {3, 1}}};
  EXPECT_THAT(names(converted(file(tensors, around(layer("GRUCell", R"("name": "c")"))))),
              Contains("steps.weight_ih_l0 [9, 2]"));
  EXPECT_THAT(ckpt::keras_rules(file(tensors, around(relu))).left, testing::SizeIs(3));
  EXPECT_THAT(ckpt::keras_rules(file(tensors, around(layer("StackedRNNCells", R"("name": "c")")))).left,
              testing::SizeIs(3));
}
