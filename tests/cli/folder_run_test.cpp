// ckpt zoo run FOLDER --prompt as a user meets it: what it says of folders that do not fit together. What it prints of
// those that do is compared with transformers in golden_folder_run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "libckpt/bridge.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"
#include "tests/cli/program.h"
#include "tests/support/golden.h"
#include "tests/support/temp_dir.h"

namespace {

using test::Outcome;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
namespace fs = std::filesystem;

class FolderRun : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto golden = test::golden_file("text/folders/llama");
    if (!golden) GTEST_SKIP() << "no golden data";
    fs::copy(*golden, at_, fs::copy_options::recursive);
  }
  void write(const std::string& name, std::string_view content) const {
    std::ofstream(at_ / name, std::ios::binary) << content;
  }
  /// The text of a file with one part of it replaced.
  void change(const std::string& name, const std::string& from, const std::string& to) const {
    std::ifstream file(at_ / name, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t found = text.find(from);
    ASSERT_NE(found, std::string::npos) << from;
    write(name, text.replace(found, from.size(), to));
  }
  Outcome run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"zoo", "run", "net"});
    return test::run_ckpt(dir_.path(), arguments);
  }
  void expect_error(const std::vector<std::string>& arguments, int code, const std::string& text) const {
    const Outcome done = run(arguments);
    EXPECT_EQ(done.code, code) << done.out << done.err;
    EXPECT_EQ(done.out, "");
    EXPECT_THAT(done.err, AllOf(StartsWith("ckpt: "), HasSubstr(text)));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
  test::TempDir dir_;
  fs::path at_ = dir_.path() / "net";
};

TEST_F(FolderRun, SaysWhatItRunsAndTheText) {
  const Outcome done = run({"--prompt", "Hello", "--generate", "3"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("LlamaForCausalLM (net) on cpu\nHello"));
  EXPECT_EQ(done.err, "");
}

TEST_F(FolderRun, GivesJson) {
  const Outcome done = run({"--prompt", "Hello", "--generate", "3", "--json"});
  EXPECT_THAT(done.out, AllOf(HasSubstr("\"model\": \"LlamaForCausalLM\""), HasSubstr("\"tokens\": ["),
                              HasSubstr("\"text\": \"Hello"), HasSubstr("\"added_text\": ")));
}

TEST_F(FolderRun, DrawsTheSameForTheSameSeed) {
  const std::vector<std::string> words = {"--prompt", "a", "--temperature", "1", "-q", "--seed"};
  const auto with_seed = [&](const std::string& seed) {
    std::vector<std::string> all = words;
    all.push_back(seed);
    return run(all).out;
  };
  EXPECT_EQ(with_seed("1"), with_seed("1"));
  EXPECT_NE(with_seed("1"), with_seed("2"));
}

TEST_F(FolderRun, EndsBehindAStopText) {
  const std::string whole = run({"--prompt", "def main(x):", "-q"}).out;
  ASSERT_GT(whole.size(), 16U);
  const std::string stop = whole.substr(12, 4);
  EXPECT_EQ(run({"--prompt", "def main(x):", "-q", "--stop", stop}).out, whole.substr(0, 16) + "\n");
  EXPECT_EQ(run({"--prompt", "def main(x):", "-q", "--stop", "no such text"}).out, whole);
}

TEST_F(FolderRun, NamesTheTokenizerFilesItLookedFor) {
  fs::remove(at_ / "tokenizer.json");
  expect_error({"--prompt", "Hello"}, 3,
               "net: no tokenizer is in the folder: neither tokenizer.json, nor tokenizer.model");
  EXPECT_EQ(run({"--prompt", "1,2,3", "--generate", "4", "-q"}).code, 0);  // ids need none
  expect_error({"--prompt", "1,900", "-q"}, 2, "--prompt: token 900 is past the last of the model's 900 tokens");
}

TEST_F(FolderRun, RefusesATokenizerOfAnotherModel) {
  change("tokenizer.json", R"("id":2,"content":"</s>")", R"("id":905,"content":"<other>")");
  expect_error({"--prompt", "Hello"}, 3,
               "net: the tokenizer has numbers up to 905, and the model's embedding 900 rows");
}

/// What people have in such folders when something went wrong on the way.
TEST_F(FolderRun, SaysOfEachBadFolderWhatIsWrongWithIt) {
  const auto fresh = [&] {
    fs::remove_all(at_);
    fs::copy(*test::golden_file("text/folders/llama"), at_, fs::copy_options::recursive);
  };
  const auto expect = [&](int code, const std::string& text) {
    SCOPED_TRACE(text);
    expect_error({"--prompt", "Hello"}, code, text);
    fresh();
  };
  fs::remove(at_ / "config.json");
  expect(3, "net: the folder has no config.json, which says what model its weights are of");
  write("config.json", "{\"architectures\": ");
  expect(3, "net/config.json: the configuration is not valid");
  write("config.json", "[]");
  expect(3, "net/config.json: the configuration is no JSON object");
  change("config.json", "\"LlamaForCausalLM\"", "\"BloomForCausalLM\"");
  expect(3, "config.json is of the family 'BloomForCausalLM', which is not here");
  fs::copy(*test::golden_file("text/folders/gpt2") / "config.json", at_, fs::copy_options::overwrite_existing);
  expect(3, "the tokenizer has numbers up to 899, and the model's embedding 800 rows: they are not of one model");
  fs::copy(*test::golden_file("text/folders/gpt2"), at_,
           fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  fs::remove(at_ / "model.safetensors");  // its weights alone are still those of Llama
  expect(3,
         "net: config.json is of GPT2LMHeadModel, but the weights look like those of LlamaForCausalLM or "
         "MistralForCausalLM: take both from the folder of one model");
  change("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  expect(3, "the file is another model: it has 2 layers under 'model.layers' where the model has 3");
  change("config.json", "\"hidden_size\": 24", "\"hidden_size\": 40");
  expect(3, "the file is another model: 21 of 21 tensors have other sizes than in the model");
  fs::remove(at_ / "model-00002-of-00003.safetensors");
  expect(3, "the shard 'model-00002-of-00003.safetensors' is missing, although the index names it");
  fs::remove(at_ / "model.safetensors.index.json");
  expect(3, "and not the index that names their tensors");
  fs::resize_file(at_ / "model-00001-of-00003.safetensors",
                  fs::file_size(at_ / "model-00001-of-00003.safetensors") - 100);
  expect(3, "shard 'model-00001-of-00003.safetensors': the file is cut off");
  write("tokenizer.json", "{");
  expect(3, "net/tokenizer.json: the JSON text is not valid");
  write("tokenizer.json", "{}");
  expect(3, "net/tokenizer.json: ");
}

TEST_F(FolderRun, RefusesAPromptPastTheContext) {
  std::string prompt;
  for (int i = 0; i < 200; ++i) prompt += "x1";
  expect_error({"--prompt", prompt}, 2, "tokens, and the model positions for 96");
}

TEST_F(FolderRun, RefusesSettingsThatAreNotHere) {
  write("generation_config.json", R"({"no_repeat_ngram_size": 3})");
  expect_error({"--prompt", "Hello"}, 3, "the field 'no_repeat_ngram_size' asks for what is not here");
  write("generation_config.json", R"({"no_repeat_ngram_size": 0, "temperature": "hot"})");
  expect_error({"--prompt", "Hello"}, 3, "the field 'temperature' is no number");
}

TEST_F(FolderRun, TakesTheSettingsOfTheFolder) {
  const std::string three = run({"--prompt", "Hello", "-q", "--generate", "3"}).out;
  write("generation_config.json", R"({"max_new_tokens": 3, "eos_token_id": [2, 7]})");
  EXPECT_EQ(run({"--prompt", "Hello", "-q"}).out, three);
  write("generation_config.json", R"({"do_sample": true, "num_beams": 2})");
  expect_error({"--prompt", "Hello"}, 2, "beams take the best tokens and draw none");
  EXPECT_EQ(run({"--prompt", "Hello", "-q", "--temperature", "0"}).code, 0);
}

TEST_F(FolderRun, SaysThatChatTemplatesAreNotRendered) {
  write("tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  const Outcome done = run({"--prompt", "Hello", "--generate", "1"});
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.err, "ckpt: net: the folder's chat template is not rendered: the prompt goes in as it is\n");
}

TEST_F(FolderRun, RefusesCommandLinesThatMakeNoSense) {
  expect_error({}, 2, "nothing to go on from; --prompt gives the text");
  expect_error({"--prompt", "a", "--input", "dog.png"}, 2, "--input is not for a folder");
  expect_error({"net.pth", "--prompt", "a"}, 2, "a second FILE is not for a folder");
  expect_error({"--prompt", "a", "--beams", "2", "--temperature", "0.5"}, 2,
               "beams take the best tokens and draw none");
  expect_error({"--prompt", "a", "--top-p", "2"}, 2, "top_p is above 0 and at most 1");
  change("config.json", "LlamaForCausalLM", "BertModel");
  expect_error({"--prompt", "a"}, 3, "'BertModel' gives no next token");
}

/// Files that llama.cpp's converter made of the folders beside them: they go on as those do, and say what they are of.
TEST(GgufRun, GoesOnAsTheFolderDoes) {
  const auto golden = test::golden_file("gguf_models");
  if (!golden) GTEST_SKIP() << "no golden data";
  const std::pair<const char*, const char*> cases[] = {{"llama3.bf16", "LlamaForCausalLM"},
                                                       {"gpt2.f32", "GPT2LMHeadModel"},
                                                       {"t5.f32", "T5ForConditionalGeneration"},
                                                       {"gptneox.f16", "GPTNeoXForCausalLM"}};
  for (const auto& [stem, family] : cases) {
    SCOPED_TRACE(stem);
    const std::string file = std::string(stem) + ".gguf";
    const std::string folder = file.substr(0, file.find('.'));
    const auto run = [&](const std::string& name) {
      return test::run_ckpt(*golden, {"zoo", "run", name, "--prompt", "the", "--generate", "5", "--temperature", "0"});
    };
    const Outcome by_file = run(file), by_folder = run("./" + folder);
    ASSERT_EQ(by_file.code, 0) << by_file.err;
    ASSERT_EQ(by_folder.code, 0) << by_folder.err;
    EXPECT_THAT(by_file.out, StartsWith(std::string(family) + " (" + file + ") on cpu\n"));
    EXPECT_EQ(by_file.out.substr(by_file.out.find('\n')), by_folder.out.substr(by_folder.out.find('\n')));
  }
}

TEST(GgufRun, NamesTheFileAndItsModelWhereItDoesNotRun) {
  const auto golden = test::golden_file("gguf_models");
  if (!golden) GTEST_SKIP() << "no golden data";
  const test::TempDir dir;
  fs::copy(*golden / "bert.f32.gguf", dir.path() / "bert.gguf");
  fs::copy(*golden / "gpt2.f32.gguf", dir.path() / "gpt.gguf");
  const auto refused = [&](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"zoo", "run"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome done = test::run_ckpt(dir.path(), all);
    EXPECT_NE(done.code, 0);
    return done.err;
  };
  EXPECT_EQ(refused({"bert.gguf", "--prompt", "a"}),
            "ckpt: bert.gguf: 'BertModel' gives no next token, which --prompt asks for\n");
  EXPECT_THAT(refused({"gpt.gguf"}), HasSubstr("nothing to go on from; --prompt gives the text"));
  ASSERT_EQ(
      test::run_ckpt(dir.path(), {"meta", "gpt.gguf", "--set", "general.architecture=mamba", "-o", "m.gguf"}).code, 0);
  EXPECT_THAT(refused({"m.gguf", "--prompt", "a"}),
              HasSubstr("m.gguf: models of the architecture 'mamba' have no rules here"));
  std::ofstream(dir.path() / "bad.gguf") << "GGUF";
  EXPECT_THAT(refused({"bad.gguf", "--prompt", "a"}), HasSubstr("bad.gguf: "));
}

/// A folder of a ViT, with its image processor.
class FolderImages : public FolderRun {
 protected:
  void SetUp() override {
    const auto golden = test::golden_file("fine_tuning/vit");
    if (!golden) GTEST_SKIP() << "no golden data";
    fs::copy(*golden / "model", at_, fs::copy_options::recursive);
    fs::copy(*golden / "data/val/a/00.png", dir_.path() / "a.png");
  }
};

TEST_F(FolderImages, NamesTheClassesOfImagesThatAreBroughtToWhatTheFolderSays) {
  change("config.json", "\"0\": \"LABEL_0\"", "\"0\": \"cat\"");
  const Outcome done = run({"a.png"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("ViTForImageClassification (net) on cpu; images: to 16 x 16 (bilinear), mean 0.5 "));
  EXPECT_THAT(done.out, AllOf(HasSubstr("a.png: image of "), HasSubstr("  0  cat\n"), HasSubstr("  1  LABEL_1\n")));
  const std::string as_input = run({"--input", "a.png", "-q"}).out;
  EXPECT_EQ(run({"a.png", "-q"}).out, as_input);
  EXPECT_THAT(run({"a.png", "--json"}).out, AllOf(HasSubstr("\"label\": \"cat\""), HasSubstr("\"weights\": \"net\"")));
  change("preprocessor_config.json", "\"do_normalize\": true", "\"do_normalize\": false");
  EXPECT_NE(run({"a.png", "-q"}).out, as_input);
}

TEST_F(FolderImages, SaysWhatItCannotRunOn) {
  test::write_file(dir_.path() / "torn.png", test::read_file(dir_.path() / "a.png").substr(0, 60));
  expect_error({"torn.png"}, 3, "torn.png: ");
  expect_error({}, 2, "nothing to run on; --input names an image or a tensor");
  expect_error({"a.png", "--num-classes", "3"}, 2, "--num-classes is not for a folder of a model that takes images");
  expect_error({"--prompt", "a"}, 3, "'ViTForImageClassification' gives no next token, which --prompt asks for");
  const std::string said = test::read_file(at_ / "preprocessor_config.json");
  fs::remove(at_ / "preprocessor_config.json");
  EXPECT_THAT(run({"a.png"}).err, HasSubstr("ckpt: net: the folder has no preprocessor_config.json, which says how "));
  write("preprocessor_config.json", "{");
  expect_error({"a.png"}, 3, "net/preprocessor_config.json: the configuration is not valid");
  write("preprocessor_config.json", said);
  change("preprocessor_config.json", "\"resample\": 2", "\"resample\": 1");
  expect_error({"a.png"}, 3,
               "net/preprocessor_config.json: field 'resample' of ViTImageProcessor is 1, and only 2 (bilinear) and 3 "
               "(bicubic) are here");
  change("preprocessor_config.json", "\"ViTImageProcessor\"", "\"OwlImageProcessor\"");
  expect_error({"a.png"}, 3, "images are prepared by \"OwlImageProcessor\", which is not here");
}

/// A small CLIP, two images and texts.
class FolderPairs : public FolderRun {
 protected:
  void SetUp() override {
    golden_ = test::golden_file("pairs/clip").value_or("");
    if (golden_.empty()) GTEST_SKIP() << "no golden data";
    fs::copy(golden_, at_, fs::copy_options::recursive);
  }
  fs::path golden_;
};

TEST_F(FolderPairs, ComparesImagesWithTextsAsTransformersDoes) {
  const std::vector<std::string> texts = {"--text", "a picture of a cat", "--text", "the dog", "--text", "house"};
  std::vector<std::string> words = {"net/0.png", "--input", "net/1.png", "-o", "y.npy"};
  words.insert(words.end(), texts.begin(), texts.end());
  const Outcome done = run(words);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out,
              AllOf(StartsWith("CLIPModel (net) on cpu; images: shorter side to 14 (bicubic), middle 12 x 12"),
                    HasSubstr("  0  a picture of a cat\n"), HasSubstr("  1  the dog\n")));
  const core::Tensor y =
      ckpt::to_tensor(*ckpt::list_entries(ckpt::open(dir_.path() / "y.npy").root).at(0).entry, core::Device("cpu"));
  const core::Tensor wanted = ckpt::load(golden_.string() + ".safetensors").at("logits");
  ASSERT_EQ(y.sizes(), wanted.sizes());
  EXPECT_LT(core::abs(y - wanted).max().item<double>(), 1e-4);
}

TEST_F(FolderPairs, TakesOneTextAtATimeAlsoAnEmptyOne) {
  const Outcome done = run({"--text", "", "--text", "dog", "net/0.png", "-q"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(HasSubstr("net/0.png\t0\t"), HasSubstr("net/0.png\t1\t"), HasSubstr("\tdog\n")));
}

TEST_F(FolderPairs, SaysWhatItCannotCompare) {
  expect_error({"net/0.png"}, 2, "--text TEXT: CLIP compares an image with texts, two or more of them");
  expect_error({"--text", "cat"}, 2, "nothing to run on; --input names an image or a tensor");
  expect_error({"net/0.png", "--text", "cat cat cat cat cat cat cat cat"}, 2,
               "--text: a text has 10 tokens, and the model positions for 9");
  fs::remove(at_ / "tokenizer.json");
  expect_error({"net/0.png", "--text", "cat"}, 3, "tokenizer.json");
  change("config.json", "\"CLIPModel\"", "\"CLIPForImageClassification\"");
  expect_error({"net/0.png", "--text", "cat"}, 2, "--text is for a folder of CLIP");
}

}  // namespace
