// Models that learn on from a folder: heads, classes, tokens, what is saved, and what cannot be learnt.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "libckpt/bridge.h"
#include "libckpt/io/json.h"
#include "libckpt/transform/lora.h"
#include "libcore/base/text.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/generator.h"
#include "libcore/tensor/tensor.h"
#include "tests/cli/program.h"
#include "tests/support/temp_dir.h"
#include "tests/train/image_folder.h"
#include "tools/train/text_rows.h"
#include "zoo/from_folder.h"

namespace {

namespace fs = std::filesystem;
using core::Tensor;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Arguments = std::vector<std::string>;

constexpr const char* kViT =
    R"({"architectures": ["ViTForImageClassification"], "image_size": 8, "patch_size": 4, "hidden_size": 8,
        "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "id2label": {"0": "left", "1": "right", "2": "up"}, "label2id": {"left": 0, "right": 1, "up": 2}})";
constexpr const char* kBert =
    R"({"architectures": ["BertForMaskedLM"], "vocab_size": 9, "hidden_size": 8, "intermediate_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 6})";
constexpr const char* kGpt2 =
    R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 9, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2})";
constexpr const char* kMobileViT =
    R"({"architectures": ["MobileViTForImageClassification"], "image_size": 32, "hidden_sizes": [8, 8, 8],
        "neck_hidden_sizes": [4, 4, 4, 8, 8, 8, 16], "num_attention_heads": 2,
        "id2label": {"0": "left", "1": "right"}})";
constexpr const char* kWords = "[PAD]\n[UNK]\n[CLS]\n[SEP]\ngood\nbad\nfilm\nvery\na\n";

class TrainFolders : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return dir_.path() / name; }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(at(name).parent_path());
    test::write_file(at(name), text);
  }
  /// A folder of a model with random weights.
  void write_model(const std::string& name, const std::string& config) const {
    write(name + "/config.json", config);
    core::manual_seed(1);
    const zoo::FolderConfig said = zoo::folder_config(at(name));
    ckpt::save(*zoo::build(*said.family, said.config), at(name) / "model.safetensors");
  }
  void write_bert() const {
    write_model("bert", kBert);
    write("bert/vocab.txt", kWords);
  }
  void write_images(const std::vector<std::string>& classes) const {
    char value = 10;
    for (const std::string& name : classes) {
      for (int i = 0; i < 5; ++i)
        test::write_grey(at("images/" + name + "/" + std::to_string(i) + ".pgm"), 9, 8, value++);
    }
  }
  test::Outcome train(Arguments arguments) const {
    if (arguments[0] == "fit" || arguments[0] == "text") {
      const bool has_devices = std::ranges::find(arguments, "--devices") != arguments.end();
      for (const char* more : {"--out", "run"}) arguments.emplace_back(more);
      if (!has_devices) arguments.insert(arguments.end(), {"--devices", "cpu"});
    }
    return test::run_program(test::built_program("train"), dir_.path(), arguments);
  }
  std::string error(const Arguments& arguments, int code) const {
    const test::Outcome done = train(arguments);
    EXPECT_EQ(done.code, code) << done.out;
    EXPECT_FALSE(fs::exists(at("run"))) << "a run was begun";
    return done.err;
  }
  test::TempDir dir_;
};

TEST_F(TrainFolders, AFreshHeadTakesThePlaceOfOneForOtherClassesAndSaysSo) {
  write_model("vit", kViT);
  write_images({"cat", "dog"});
  const test::Outcome done = train({"fit", "images", "--model", "vit", "--epochs", "1", "--lr", "0.01"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("the head for 3 classes gives way to a fresh one for 2 classes"));
  const std::string config = test::read_file(at("run/best/config.json"));
  EXPECT_THAT(config, HasSubstr(R"("id2label": {"0":"cat","1":"dog"})"));
  EXPECT_THAT(config, HasSubstr(R"("label2id": {"cat":0,"dog":1})"));
  EXPECT_EQ(ckpt::load(at("run/best/model.safetensors")).at("classifier.weight").sizes(), core::Shape({2, 8}));
  for (const char* what : {"run", "run/best", "run/best/model.safetensors"}) {
    EXPECT_THAT(train({"evaluate", what}).out, HasSubstr("test loss")) << what;
  }
}

TEST_F(TrainFolders, ARunIsCalledByTheFolderHoweverThatIsNamed) {
  write_model("vit", kViT);
  write_images({"left", "right", "up"});
  for (const auto& [folder, data, model] :
       {std::tuple(".", "images", "./vit/."), std::tuple("vit", "../images", ".")}) {
    const test::Outcome done = test::run_program(test::built_program("train"), at(folder),
                                                 {"fit", data, "--model", model, "--dry-run", "--devices", "cpu"});
    EXPECT_THAT(done.out, HasSubstr("runs/images_vit/: config.toml")) << done.err;
  }
}

TEST_F(TrainFolders, AHeadForTheSameClassesStaysAndKeepsTheirOrder) {
  write_model("vit", kViT);
  write_images({"up", "right", "left"});
  const test::Outcome done = train({"fit", "images", "--model", "vit", "--epochs", "1"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, Not(HasSubstr("head")));
  EXPECT_EQ(test::read_file(at("run/classes.txt")), "left\nright\nup\n");
}

TEST_F(TrainFolders, FrozenItLearnsTheHeadAlone) {
  write_model("vit", kViT);
  write_images({"left", "right", "up"});
  const test::Outcome done = train({"fit", "images", "--model", "vit", "--epochs", "1", "--lr", "0.01", "--freeze"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr(", of which 27 learn"));
  const core::StateDict before = ckpt::load(at("vit/model.safetensors")), after = ckpt::load(at("run/best"));
  for (const auto& [name, tensor] : before) {
    EXPECT_EQ(core::equal(tensor, after.at(name)), !name.starts_with("classifier.")) << name;
  }
}

TEST_F(TrainFolders, ResumedItIsTheRunThatWasNotInterrupted) {
  write_bert();
  std::string text = "text,label\n";
  for (int i = 0; i < 20; ++i) text += std::string(i % 3 == 0 ? "a good film,yes\n" : "\"very, very bad\",no\n");
  write("texts.csv", text);
  const Arguments fit = {"fit", "texts.csv", "--model", "bert", "--batch", "4", "--lr", "0.01"};
  Arguments both = fit, one = fit;
  both.insert(both.end(), {"--epochs", "2"});
  one.insert(one.end(), {"--epochs", "1"});
  const test::Outcome whole = train(both);
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("BertForMaskedLM has no head for classes: a fresh one for 2 classes begins at "
                                   "chance, and so does bert.pooler, which it lacks too"));
  fs::rename(at("run"), at("whole"));
  ASSERT_EQ(train(one).code, 0);
  const test::Outcome resumed = train({"resume", "run", "--epochs", "2"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(test::read_file(at("run/steps.csv")), test::read_file(at("whole/steps.csv")));
  EXPECT_TRUE(fs::exists(at("run/best/vocab.txt")));
  EXPECT_EQ(zoo::folder_config(at("run/best")).family->name, "BertForSequenceClassification");
}

TEST_F(TrainFolders, TextsArePaddedAndCutBetweenTheTokensAroundThem) {
  write_bert();
  write("texts.csv", "stars,text\n2,good\n10,\"a very, very \"\"bad\"\" film\n\"\n");
  const train::DataSet data = train::load_text_rows(at("texts.csv"), {.name = "", .model = at("bert").string()});
  EXPECT_THAT(data.class_names, ElementsAre("2", "10"));
  EXPECT_THAT(data.train.targets.to_vector<std::int64_t>(), ElementsAre(0, 1));
  EXPECT_THAT(data.train.inputs.to_vector<std::int64_t>(), ElementsAre(2, 4, 3, -1, -1, -1, 2, 8, 7, 1, 7, 3));
}

TEST_F(TrainFolders, ATextIsLearntInBlocksOfTokensAndTheFolderThatIsLeftContinuesIt) {
  write_model("decoder", kGpt2);
  write("decoder/vocab.txt", kWords);
  std::string text;
  for (int i = 0; i < 60; ++i) text += i % 2 == 0 ? "a good film very " : "bad ";
  write("text.txt", text);
  const Arguments learn = {"text", "--text", "text.txt", "--model",     "./decoder", "--length",
                           "4",    "--lr",   "0.02",     "--optimizer", "adamw"};
  Arguments both = learn, one = learn, factors = learn;
  factors.insert(factors.end(), {"--epochs", "1", "--lora", "2", "--overwrite"});
  both.insert(both.end(), {"--epochs", "8"});
  one.insert(one.end(), {"--epochs", "3"});
  const test::Outcome whole = train(both);
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("text: 35 rows to learn from, 3 to test on, [4] each, in tokens"));
  fs::rename(at("run"), at("whole"));
  ASSERT_EQ(train(one).code, 0);
  ASSERT_EQ(train({"resume", "run", "--epochs", "8"}).code, 0);
  EXPECT_EQ(test::read_file(at("run/epochs.csv")), test::read_file(at("whole/epochs.csv")));
  EXPECT_THAT(train({"evaluate", "run", "--data", "text.txt", "--json"}).out, HasSubstr("\"rows\":38"));
  const test::Outcome asked = train({"generate", "run", "--prompt", "a"});
  EXPECT_EQ(asked.code, 2);
  EXPECT_THAT(asked.err, HasSubstr("`ckpt zoo run run/best --prompt TEXT` goes on from a text"));
  ASSERT_EQ(train(factors).code, 0);
  EXPECT_THAT(train({"generate", "run", "--prompt", "a"}).err,
              HasSubstr("decoder run/best -o model.safetensors` gives"));
}

TEST_F(TrainFolders, FactorsLearnBesideAModelThatStaysAndAreAnAdapter) {
  write_bert();
  std::string text = "text,label\n";
  for (int i = 0; i < 20; ++i) text += std::string(i % 3 == 0 ? "a good film,yes\n" : "very bad,no\n");
  write("texts.csv", text);
  const Arguments fit = {"fit", "texts.csv", "--model", "bert", "--batch", "4", "--lr", "0.05", "--lora", "2"};
  Arguments both = fit, one = fit;
  both.insert(both.end(), {"--epochs", "2"});
  one.insert(one.end(), {"--epochs", "1"});
  const test::Outcome whole = train(both);
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out,
              HasSubstr("LoRA of rank 2 beside 2 layers (query, value), and bert.pooler, classifier as a whole; all "
                        "else stays"));
  fs::rename(at("run"), at("whole"));
  ASSERT_EQ(train(one).code, 0);
  ASSERT_EQ(train({"resume", "run", "--epochs", "2"}).code, 0);
  EXPECT_EQ(test::read_file(at("run/epochs.csv")), test::read_file(at("whole/epochs.csv")));
  const ckpt::LoraAdapter adapter = ckpt::open_lora(at("run/best"));
  ASSERT_EQ(adapter.targets.size(), 2U);
  EXPECT_EQ(adapter.targets[0].module, "bert.encoder.layer.0.attention.self.query");
  EXPECT_EQ(adapter.targets[0].scale, 4);
  EXPECT_EQ(adapter.replaced.size(), 4U) << "the head, and the pooler that the folder does not have";
  const core::StateDict state = ckpt::load(at("run/best/adapter_model.safetensors"));
  const Tensor b = state.at("base_model.model.bert.encoder.layer.0.attention.self.query.lora_B.weight");
  EXPECT_FALSE(core::equal(b, b * 0)) << "nothing was learnt";
  const std::string judged = train({"evaluate", "run", "--json"}).out;
  EXPECT_THAT(judged, HasSubstr("adapter_model.safetensors"));
  EXPECT_EQ(train({"evaluate", "run/best", "--json"}).out, judged);
}

TEST_F(TrainFolders, APoolerThatTheFolderLacksLearnsWithTheHeadAlone) {
  write_bert();
  write("texts.csv", "text,label\na good film,yes\nvery bad,no\na film,yes\nbad,no\nvery good,yes\n");
  ASSERT_EQ(train({"fit", "texts.csv", "--model", "bert", "--epochs", "1", "--lr", "0.05", "--freeze"}).code, 0);
  fs::rename(at("run"), at("one"));
  ASSERT_EQ(train({"fit", "texts.csv", "--model", "bert", "--epochs", "1", "--lr", "0.02", "--freeze"}).code, 0);
  const core::StateDict one = ckpt::load(at("one/best")), two = ckpt::load(at("run/best"));
  for (const auto& [name, tensor] : one) {
    const bool learns = name.starts_with("classifier.") || name.starts_with("bert.pooler.");
    EXPECT_EQ(core::equal(tensor, two.at(name)), !learns) << name;
  }
}

TEST_F(TrainFolders, FactorsLearnOnSeveralDevicesWhatTheyLearnOnOne) {
  std::string config(kGpt2);  // what dropout leaves out is drawn on each device
  config.insert(1, R"("resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0, )");
  write_model("decoder", config);
  write("decoder/vocab.txt", kWords);
  std::string text;
  for (int i = 0; i < 60; ++i) text += i % 2 == 0 ? "a good film very " : "bad ";
  write("text.txt", text);
  std::vector<core::StateDict> learnt;
  for (const char* devices : {"1", "2", "3"}) {
    const test::Outcome done =
        train({"text", "--text", "text.txt", "--model", "./decoder", "--length", "4", "--batch", "6", "--lr", "0.02",
               "--epochs", "2", "--lora", "2", "--overwrite", "--devices", devices});
    ASSERT_EQ(done.code, 0) << done.err;
    learnt.push_back(ckpt::load(at("run/best/adapter_model.safetensors")));
  }
  for (const auto& [name, tensor] : learnt[0]) {
    for (const core::StateDict& other : learnt) {
      EXPECT_TRUE(core::allclose(tensor, other.at(name), {.rtol = 1e-4, .atol = 1e-5})) << name;
    }
    if (!name.ends_with("lora_B.weight")) continue;
    EXPECT_FALSE(core::equal(tensor, tensor * 0)) << name;
  }
}

TEST_F(TrainFolders, TheBestFolderAppearsWhole) {
  write_model("vit", kViT);
  write_images({"left", "right", "up"});
  const Arguments fit = {"fit", "images", "--model", "vit", "--epochs", "1", "--lr", "0.01"};
  ASSERT_EQ(train(fit).code, 0);
  write("run/best/README.md", "mine");
  ASSERT_EQ(train({"resume", "run", "--epochs", "4"}).code, 0);
  EXPECT_EQ(test::read_file(at("run/best/README.md")), "mine");
  write("run/best/notes/mine.txt", "mine too");
  ASSERT_EQ(train({"resume", "run", "--epochs", "8"}).code, 0);
  EXPECT_EQ(test::read_file(at("run/best/notes/mine.txt")), "mine too");
  for (const auto& entry : fs::directory_iterator(at("run"))) {
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
  }
  EXPECT_EQ(zoo::folder_config(at("run/best")).family->name, "ViTForImageClassification");
}

TEST_F(TrainFolders, BesideFactorsTheStatisticsOfBatchesStayToo) {
  write_model("mobilevit", kMobileViT);
  core::StateDict weights = ckpt::load(at("mobilevit/model.safetensors"));
  for (auto& [name, tensor] : weights) {
    if (tensor.dim() > 1) tensor.mul_(40);  // so that what the head sees depends on the images
  }
  ckpt::save(weights, at("mobilevit/model.safetensors"));
  write_images({"left", "right"});
  const Arguments fit = {"fit", "images", "--model", "mobilevit", "--batch", "4", "--lr", "0.05", "--lora", "2"};
  Arguments both = fit, one = fit, look = fit;
  both.insert(both.end(), {"--epochs", "2"});
  one.insert(one.end(), {"--epochs", "1"});
  look.emplace_back("--dry-run");
  EXPECT_THAT(train(look).out, AllOf(HasSubstr(" learn; adamw"), HasSubstr("LoRA of rank 2 beside "),
                                     HasSubstr("model\nMobileViTForImageClassification(\n")));
  const test::Outcome whole = train(both);
  ASSERT_EQ(whole.code, 0) << whole.err;
  fs::rename(at("run"), at("whole"));
  ASSERT_EQ(train(one).code, 0);
  ASSERT_EQ(train({"resume", "run", "--epochs", "2"}).code, 0);
  EXPECT_EQ(test::read_file(at("run/epochs.csv")), test::read_file(at("whole/epochs.csv")));
  const std::string judged = train({"evaluate", "run/best", "--json"}).out;
  double least = 1e9;  // of the rows of epochs.csv, which begin behind its head
  const std::string rows = test::read_file(at("run/epochs.csv"));
  for (std::string_view row : core::split(std::string_view(rows).substr(rows.find('\n') + 1), '\n')) {
    if (!row.empty()) least = std::min(least, std::stod(std::string(core::split(row, ',').at(5))));
  }
  const auto document = ckpt::JsonDocument::parse(std::string_view(judged));
  EXPECT_NEAR(document.root().at("test_loss").as_real(), least, 1e-5);
}

TEST_F(TrainFolders, TheModelThatLearnsOnIsNotReplacedByWhatItBecomes) {
  write_model("run/best", kViT);
  write_images({"left", "right", "up"});
  const std::string weights = test::read_file(at("run/best/model.safetensors"));
  const Arguments fit = {"fit", "images", "--model", "run/best", "--epochs", "1"};
  for (const Arguments& more : {Arguments{}, Arguments{"--overwrite"}}) {
    Arguments arguments = fit;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const test::Outcome done = train(arguments);
    EXPECT_EQ(done.code, 2) << done.out;
    EXPECT_THAT(done.err, HasSubstr("--out run: its best/ is the model that learns on; choose another --out\n"));
    EXPECT_TRUE(test::read_file(at("run/best/model.safetensors")) == weights);
    write("run/config.toml", "model = \"vit\"\n");  // the second time a run lies there
  }
}

TEST_F(TrainFolders, FactorsThatCannotBeAreSaidInOneSentence) {
  write_bert();
  write("texts.csv", "text,label\ngood,yes\nbad,no\n");
  const auto refused = [&](Arguments more, int code) {
    more.insert(more.begin(), {"fit", "texts.csv", "--model", "bert"});
    return error(more, code);
  };
  EXPECT_THAT(refused({"--lora", "0"}, 2), HasSubstr("--lora is at least 1, not 0\n"));
  EXPECT_THAT(refused({"--lora", "2", "--freeze"}, 2), HasSubstr("--freeze: with --lora the model stays as it is\n"));
  EXPECT_THAT(refused({"--lora-alpha", "2"}, 2), HasSubstr("--lora-alpha, --lora-targets: these are of --lora RANK\n"));
  EXPECT_THAT(refused({"--lora", "2", "--format", "ckpt"}, 2), HasSubstr("is saved as a folder alone\n"));
  EXPECT_THAT(refused({"--lora", "2", "--lora-targets", "query,classifier"}, 2),
              HasSubstr("'classifier' is no linear layer of this model; there are dense, key, query, value\n"));
  write("points.csv", "x,y\n1,0\n2,1\n3,1\n4,0\n5,1\n");
  EXPECT_THAT(error({"fit", "points.csv", "--lora", "2"}, 2), HasSubstr("--lora is for --model FOLDER"));
}

TEST_F(TrainFolders, TextsThatCannotBeLearntAreSaidInOneSentence) {
  write_model("vit", kViT);
  write_model("decoder", kGpt2);
  write("text.txt", "a good film");
  EXPECT_THAT(error({"text", "--text", "text.txt", "--model", "vit"}, 3),
              HasSubstr("vit: 'ViTForImageClassification' does not continue texts; it tells classes apart"));
  EXPECT_THAT(error({"text", "--text", "text.txt", "--model", "decoder"}, 3), HasSubstr("tokenizer.json"));
  write("decoder/vocab.txt", kWords);
  EXPECT_THAT(error({"text", "--text", "text.txt", "--model", "decoder"}, 2),
              HasSubstr("text.txt: 5 tokens are too few for a --length of 8\n"));
  EXPECT_THAT(error({"text", "--text", "text.txt", "--model", "decoder", "--length", "9"}, 2),
              HasSubstr("--length 9: the model has positions for 8 tokens\n"));
  write("text.txt", "a good film a good film a good film a good film");
  EXPECT_THAT(error({"text", "--text", "text.txt", "--model", "decoder", "--layers", "2"}, 2),
              HasSubstr("the model of a folder has its own\n"));
  EXPECT_THAT(error({"text", "--model", "decoder"}, 2), HasSubstr("--text FILE: which text is to be learnt\n"));
  write_model("gpt2", kGpt2);
  EXPECT_THAT(error({"text", "--text", "text.txt", "--model", "gpt2", "--length", "4"}, 2),
              HasSubstr("; the folder of that name is ./gpt2\n"));
}

TEST_F(TrainFolders, WhatCannotBeLearntIsSaidInOneSentence) {
  write_bert();
  write_model("decoder", kGpt2);
  write_model("vit", kViT);
  write("texts.csv", "text,label\ngood,yes\nbad,\n");
  EXPECT_EQ(error({"fit", "texts.csv", "--model", "bert"}, 3), "train: texts.csv: line 3: 'label' is empty\n");
  EXPECT_THAT(error({"fit", "texts.csv", "--model", "bert", "--target", "stars"}, 2),
              HasSubstr("--target stars: there is no such column; there are text, label\n"));
  EXPECT_THAT(error({"fit", "texts.csv", "--model", "decoder"}, 3),
              HasSubstr("decoder: 'GPT2LMHeadModel' has no head here that tells classes apart; it continues texts"));
  EXPECT_THAT(error({"fit", "texts.csv", "--model", "bert", "--kind", "values"}, 2),
              HasSubstr("--kind values: the model of a folder tells classes apart; leave --kind out\n"));
  EXPECT_THAT(error({"fit", "texts.csv", "--model", "./best"}, 4),
              HasSubstr("train: ./best: no such folder; --model is"));
  write("torn.csv", "text,label\n\"good,yes\n");
  EXPECT_THAT(error({"fit", "torn.csv", "--model", "bert"}, 3),
              HasSubstr("torn.csv: line 2: a quote begins here and has no end\n"));
  write("same.csv", "text,label\ngood,yes\nbad,yes\n");
  EXPECT_THAT(error({"fit", "same.csv", "--model", "bert"}, 2), HasSubstr("all rows are of the class 'yes'\n"));
  fs::remove(at("bert/vocab.txt"));
  write("good.csv", "text,label\ngood,yes\nbad,no\n");
  EXPECT_THAT(error({"fit", "good.csv", "--model", "bert"}, 3), HasSubstr("tokenizer.json"));
  EXPECT_THAT(error({"fit", "good.csv", "--model", "vit"}, 2),
              HasSubstr("good.csv: is a file, and vit takes images: a folder of folders"));
  write_images({"left", "right", "up"});
  EXPECT_THAT(error({"fit", "images", "--model", "bert"}, 2), HasSubstr("reads texts: a CSV file"));
  EXPECT_THAT(error({"fit", "images", "--freeze"}, 2), HasSubstr("--freeze is for --model FOLDER"));
  write("images/left/0.pgm", "no image");
  EXPECT_THAT(error({"fit", "images", "--model", "vit"}, 3), HasSubstr("left/0.pgm: is not an image"));
}

}  // namespace
