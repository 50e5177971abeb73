// ckpt zoo run as a user meets it. Expected numbers are those of PyTorch 2.15 and Pillow 13 on the same weights and
// pixels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "libckpt/bridge.h"
#include "libcore/autograd/checkpoint.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/sgd.h"
#include "libcore/parallel/data_parallel.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"
#include "tests/cli/image_files.h"
#include "tests/cli/program.h"
#include "tests/support/picture.h"
#include "tests/support/temp_dir.h"
#include "zoo/nanogpt.h"
#include "zoo/recurrent.h"
#include "zoo/small_images.h"
#include "zoo/zoo.h"

namespace {

using test::Outcome;
using test::picture;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Weights by a rule: ((7 j^2 + 31 j + 13 i) mod 101 - 50) / 50, scaled, for element j of tensor i.
void fill(core::Module& module) {
  core::StateDict state = module.state_dict();
  std::int64_t i = 0;
  for (const std::string& key : state.keys()) {
    core::Tensor tensor = state.at(key);
    const double scale = tensor.dim() > 1 ? 4 / std::sqrt(static_cast<double>(tensor.numel() / tensor.size(0))) : 0.1;
    auto* values = tensor.mutable_data<float>();
    for (std::int64_t j = 0; j < tensor.numel(); ++j) {
      values[j] = static_cast<float>(static_cast<double>((7 * j * j + 31 * j + 13 * i) % 101 - 50) / 50 * scale);
    }
    ++i;
  }
}

class ZooRun : public ::testing::Test {
 protected:
  Outcome run(std::vector<std::string> arguments, const test::RunOptions& options = {}) const {
    arguments.insert(arguments.begin(), {"zoo", "run"});
    return test::run_ckpt(dir_.path(), arguments, options);
  }
  void write(const std::string& name, std::string_view content) const {
    std::ofstream(dir_.path() / name, std::ios::binary) << content;
  }
  /// cifar.pth, as a DataParallel run leaves it, and dog.ppm.
  void make_cifar(std::int64_t classes = 10) const {
    zoo::CifarNet net({.num_classes = classes});
    fill(net);
    core::DataParallel<zoo::CifarNet> wrapped(net);
    ckpt::save(wrapped.state_dict(), dir_.path() / "cifar.pth");
    write("dog.ppm", test::ppm_text(picture(61, 37, 3)));
  }
  /// A command that ends with this code and one line that says so.
  void expect_error(const std::vector<std::string>& arguments, int code, const std::string& text) const {
    const Outcome done = run(arguments);
    EXPECT_EQ(done.code, code) << done.out << done.err;
    EXPECT_EQ(done.out, "");
    EXPECT_THAT(done.err, AllOf(StartsWith("ckpt: "), HasSubstr(text)));
    EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
  }
  test::TempDir dir_;
};

TEST_F(ZooRun, TakesTheWrappedModelOfATrainingStateByItsName) {
  make_cifar();
  zoo::CifarNet net;
  fill(net);
  core::DataParallel<zoo::CifarNet> wrapped(net);
  core::SGD optimizer(wrapped.parameters(), {.lr = 0.1});
  ckpt::save_training(dir_.path() / "run.ckpt", wrapped, optimizer, {.epoch = 1});
  const Outcome plain = run({"cifar_net", "cifar.pth", "--input", "dog.ppm", "-q"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  for (const char* name : {"run.ckpt::model", "run.ckpt"}) {
    const Outcome done = run({"cifar_net", name, "--input", "dog.ppm", "-q"});
    EXPECT_EQ(done.code, 0) << name << done.err;
    EXPECT_EQ(done.out, plain.out) << name;
  }
}

TEST_F(ZooRun, ShowsTheLikeliestClasses) {
  make_cifar();
  const Outcome done = run({"cifar_net", "cifar.pth", "--input", "dog.ppm", "--top", "3"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.err, "ckpt: cifar.pth: strip 'module.'\n");
  EXPECT_EQ(done.out,
            "cifar_net (cifar.pth) on cpu; images: shorter side to 32 (bilinear), middle 32 x 32, mean 0.5 0.5 0.5, "
            "std 0.5 0.5 0.5\n"
            "dog.ppm: image of 61 x 37 pixels\n"
            "PROBABILITY  LOGIT  CLASS\n"
            "    36.79 %  2.588      1\n"
            "    24.71 %  2.190      0\n"
            "    10.47 %  1.332      2\n");
}

TEST_F(ZooRun, TakesSeveralImagesOfSeveralKinds) {
  make_cifar();
  write("b.ppm", test::ppm_text(picture(40, 90, 3)));
  write("c.png", test::kRgbPng);
  write("d.jpg", test::kRgbJpeg);
  const Outcome done = run({"cifar_net", "cifar.pth", "-q", "--top", "1", "-i", "dog.ppm", "b.ppm", "c.png", "d.jpg"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("dog.ppm\t1\t0.367915\nb.ppm\t9\t0.283211\nc.png\t"));
  EXPECT_THAT(done.out, HasSubstr("\nd.jpg\t"));
  EXPECT_EQ(done.err, "");
}

TEST_F(ZooRun, TakesTheNumberOfClassesFromTheFile) {
  make_cifar(7);
  const Outcome done = run({"cifar_net", "cifar.pth", "--input", "dog.ppm", "--top", "9", "-q"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("dog.ppm\t1\t0.4133"));
  EXPECT_EQ(std::count(done.out.begin(), done.out.end(), '\n'), 7);
}

TEST_F(ZooRun, NamesClassesFromAFile) {
  make_cifar();
  write("labels.txt", "plane\ncar\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n");
  write("labels.json", R"({"0":["n0","plane"],"1":["n1","car"],"2":"bird"})");
  EXPECT_THAT(run({"cifar_net", "cifar.pth", "-i", "dog.ppm", "--labels", "labels.txt"}).out,
              HasSubstr("36.79 %  2.588      1  car\n"));
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "dog.ppm", "--labels", "labels.json"}, 2,
               "labels.json: has 3 labels where the model has 10");
}

TEST_F(ZooRun, PrintsJson) {
  make_cifar();
  const Outcome done = run({"cifar_net", "cifar.pth", "--input", "dog.ppm", "--top", "1", "--json"});
  EXPECT_THAT(done.out, StartsWith("{\n  \"schema\": 2,"));
  EXPECT_THAT(done.out, HasSubstr("\"steps\": [\n    \"strip 'module.'\""));
  EXPECT_THAT(done.out, HasSubstr("\"class\": 1,\n          \"probability\": 0.3679"));
  EXPECT_EQ(done.err, "");
  EXPECT_THAT(run({"cifar_net", "cifar.pth", "--input", "dog.ppm", "--top", "1", "--jsonl"}).out,
              HasSubstr("\n{\"of\":\"inputs\",\"path\":\"dog.ppm\",\"input\":\"image of 61 x 37 pixels\""));
}

TEST_F(ZooRun, TakesTensorsAsTheyAre) {
  make_cifar();
  zoo::CifarNet net;
  fill(net);
  core::manual_seed(3);
  const core::Tensor x = core::rand({2, 3, 32, 32});
  core::StateDict state;
  state.set("x", x);
  ckpt::save(state, dir_.path() / "x.safetensors");
  const Outcome done =
      run({"cifar_net", "cifar.pth", "-q", "-i", "x.safetensors::x", "--top", "1", "-o", "y.safetensors"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, AllOf(StartsWith("x.safetensors::x[0]\t"), HasSubstr("\nx.safetensors::x[1]\t")));
  const core::Tensor y = ckpt::load(dir_.path() / "y.safetensors").at("output");
  EXPECT_TRUE(core::allclose(y, net(x).detach(), {.rtol = 1e-5, .atol = 1e-5}));
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "x.safetensors", "-o", "y.safetensors"}, 4, "y.safetensors");
}

TEST_F(ZooRun, TakesBytesLaidOutAsAnImage) {
  make_cifar();
  core::StateDict state;
  const zoo::Image image = picture(61, 37, 3);
  state.set("pixels", core::from_values(image.pixels).view({37, 61, 3}));
  ckpt::save(state, dir_.path() / "x.safetensors");
  EXPECT_EQ(run({"cifar_net", "cifar.pth", "-q", "--top", "1", "-i", "x.safetensors"}).out,
            "x.safetensors\t1\t0.367915\n");
}

TEST_F(ZooRun, MakesImagesGreyForModelsOfOneChannel) {
  write("dog.png", test::kRgbPng);
  const Outcome done = run({"lenet5", "--random", "--seed", "4", "-i", "dog.png"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("images: grey, shorter side to 28 (bilinear), middle 28 x 28"));
  EXPECT_EQ(done.err, "ckpt: weights drawn with seed 4: what the model says means nothing\n");
}

TEST_F(ZooRun, OtherSizesCanBeAskedFor) {
  write("dog.png", test::kRgbPng);
  const Outcome done =
      run({"mobilenet_v3_small", "--random", "--num-classes", "3", "--resize", "40", "--crop", "32", "-i", "dog.png"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("shorter side to 40 (bilinear), middle 32 x 32"));
  expect_error({"mobilenet_v3_small", "--random", "--resize", "40", "-i", "dog.png"}, 2,
               "dog.png: no 224 pixels can be cut out of 40");
}

TEST_F(ZooRun, GivesTheSameOnALogicalDevice) {
  make_cifar();
  const test::RunOptions logical{.in_child = [] { ::setenv("CORE_LOGICAL_DEVICES", "host:2", 1); }};
  const std::vector<std::string> words = {"cifar_net", "cifar.pth", "-q", "-i", "dog.ppm", "--device"};
  auto on = [&](const std::string& device) {
    std::vector<std::string> all = words;
    all.push_back(device);
    return run(all, logical);
  };
  EXPECT_EQ(on("cuda:1").out, on("cpu").out);
  EXPECT_EQ(on("cuda:2").code, 5);
  EXPECT_EQ(on("cuda:2").err, "ckpt: there is no cuda:2; the last one is cuda:1\n");
  EXPECT_EQ(on("gpu").code, 2);
}

TEST_F(ZooRun, ReadsWeightsAndImagesFromAPipe) {
  make_cifar();
  const test::RunOptions piped{.in_child = [this] {
    const int fd = ::open((dir_.path() / "cifar.pth").c_str(), O_RDONLY);
    ::dup2(fd, 0);
  }};
  EXPECT_EQ(run({"cifar_net", "-", "-q", "--top", "1", "-i", "dog.ppm"}, piped).out, "dog.ppm\t1\t0.367915\n");
}

TEST_F(ZooRun, EndsQuietlyWhenTheReaderGoesAway) {
  make_cifar();
  const test::RunOptions closed{.in_child = [] {
    int ends[2];
    if (::pipe(ends) != 0) return;
    ::close(ends[0]);
    ::dup2(ends[1], 1);
  }};
  const Outcome done = run({"cifar_net", "cifar.pth", "-q", "-i", "dog.ppm"}, closed);
  EXPECT_EQ(done.signal, SIGPIPE);
  EXPECT_EQ(done.err, "");
}

TEST_F(ZooRun, SaysWhenThereIsNoRoomForItsAnswer) {
  make_cifar();
  const Outcome done = run({"cifar_net", "cifar.pth", "-q", "-i", "dog.ppm"}, {.stdout_path = "/dev/full"});
  EXPECT_EQ(done.code, 4);
  EXPECT_THAT(done.err, HasSubstr("standard output: cannot write"));
}

TEST_F(ZooRun, RefusesWhatIsNoImage) {
  make_cifar();
  write("cut.png", test::kRgbPng.substr(0, 100));
  write("cut.jpg", test::kRgbJpeg.substr(0, 400));
  write("a.gif", "GIF89a\x01\x02");
  write("a.txt", "hello world, this is no image");
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "cut.png"}, 3, "cut.png: a damaged PNG image: cut off");
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "cut.jpg"}, 3, "cut.jpg: a damaged JPEG image: Premature end");
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "a.gif"}, 3, "a.gif: a GIF image is not read");
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "a.txt"}, 3, "a.txt: ");
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "none.png"}, 4, "none.png");
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "cifar.pth"}, 3,
               "cifar.pth: holds 10 tensors, where an image or one tensor is wanted");
}

TEST_F(ZooRun, RefusesWeightsThatDoNotFit) {
  make_cifar();
  expect_error({"mnist_net", "cifar.pth", "-q", "-i", "dog.ppm"}, 3, "cifar.pth: ");
  expect_error({"cifar_net", "dog.ppm", "-q", "-i", "dog.ppm"}, 3, "dog.ppm: ");
  expect_error({"cifar_net", "none.pth", "-q", "-i", "dog.ppm"}, 4, "none.pth");
}

TEST_F(ZooRun, RefusesTensorsThatDoNotFit) {
  make_cifar();
  core::StateDict state;
  state.set("x", core::zeros({3, 8}));
  state.set("y", core::zeros({4, 32, 32}));
  ckpt::save(state, dir_.path() / "x.safetensors");
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "x.safetensors"}, 3,
               "x.safetensors: holds 2 tensors, where an image or one tensor is wanted; FILE::NAME picks one");
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "x.safetensors::x"}, 3, "a tensor of float32 [3, 8], where");
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "x.safetensors::y"}, 3,
               "'cifar_net' cannot take a tensor of [1, 4, 32, 32]");
  expect_error({"cifar_net", "cifar.pth", "-q", "-i", "x.safetensors::z"}, 2, "has no tensor 'z'");
}

TEST_F(ZooRun, RefusesCommandLinesThatMakeNoSense) {
  make_cifar();
  expect_error({"cifar_nte", "cifar.pth", "-i", "dog.ppm"}, 2, "did you mean 'cifar_net'?");
  expect_error({"mvit_v1_b", "cifar.pth", "-i", "dog.ppm"}, 3, "knows the keys of 'mvit_v1_b' and cannot run it");
  expect_error({"cifar_net", "-i", "dog.ppm"}, 2, "--random runs the model with freshly drawn ones");
  expect_error({"cifar_net", "cifar.pth", "--random", "-i", "dog.ppm"}, 2, "--random is for a model without a file");
  expect_error({"cifar_net", "cifar.pth"}, 2, "--input names an image or a tensor");
  expect_error({"cifar_net", "cifar.pth", "-i", "dog.ppm", "--prompt", "x"}, 2, "are for models of text");
  expect_error({"cifar_net", "cifar.pth", "-i", "dog.ppm", "--top", "0"}, 2, "--top");
  expect_error({"cifar_net", "cifar.pth", "--inptu", "dog.ppm"}, 2, "did you mean '--input'?");
  expect_error({"char_lstm", "--random"}, 2, "--prompt gives the first tokens");
  expect_error({"simple_rnn", "--random", "-i", "dog.ppm", "--crop", "3"}, 2, "are for models of images");
  expect_error({"bert_base", "--random", "--prompt", "1", "--generate", "3"}, 2, "gives no next token");
  expect_error({"word2vec", "--random", "-i", "dog.ppm"}, 3, "compares two words");
}

TEST_F(ZooRun, IsInHelpManualAndCompletion) {
  EXPECT_THAT(run({"--help"}).out, AllOf(HasSubstr("--input"), HasSubstr("--prompt"), HasSubstr("Examples:")));
  EXPECT_THAT(test::run_ckpt(dir_.path(), {"man", "zoo"}).out, HasSubstr("\\-\\-vocabulary"));
  EXPECT_THAT(test::run_ckpt(dir_.path(), {"completion", "bash", "--", "zoo", "run", "resnet1"}).out,
              HasSubstr("resnet18"));
  EXPECT_THAT(test::run_ckpt(dir_.path(), {"completion", "bash", "--", "zoo", "run", "resnet18", "--lab"}).out,
              HasSubstr("--labels"));
  make_cifar();
  EXPECT_EQ(test::run_ckpt(dir_.path(), {"completion", "bash", "--", "zoo", "run", "resnet18", "--input", ""}).out,
            "files\ncifar.pth\ndog.ppm\n");
}

/// A character model with a vocabulary beside its weights.
class ZooRunText : public ZooRun {
 protected:
  void SetUp() override {
    zoo::CharLSTM net({.vocabulary = 5, .embedding = 4, .hidden = 6, .layers = 1});
    fill(net);
    ckpt::Dict root;
    root.items.emplace_back(ckpt::Value::text("model"), ckpt::to_value(net.state_dict()));
    root.items.emplace_back(ckpt::Value::text("chars"), ckpt::Value::text("\nabcd"));
    ckpt::Checkpoint checkpoint;
    checkpoint.root = ckpt::Value::dict(std::move(root));
    ckpt::save(checkpoint, dir_.path() / "text.pt");
    ckpt::save(net.state_dict(), dir_.path() / "plain.pth");
    write("all.txt", "dcba\n");
    const core::Tensor tokens = core::from_values(std::vector<std::int64_t>{1, 2, 3}).unsqueeze(0);
    likeliest_ = net(tokens).select(0, 0).select(0, 2).argmax().item<std::int64_t>();
  }
  std::int64_t likeliest_ = 0;
};

TEST_F(ZooRunText, ShowsTheLikeliestNextTokens) {
  const Outcome done = run({"char_lstm", "text.pt", "--prompt", "abc", "--top", "1", "-q"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("prompt\t" + std::to_string(likeliest_) + "\t"));
}

TEST_F(ZooRunText, TakesIdsWhereThereIsNoVocabulary) {
  EXPECT_THAT(run({"char_lstm", "plain.pth", "--prompt", "1,2, 3", "--top", "1", "-q"}).out,
              StartsWith("prompt\t" + std::to_string(likeliest_) + "\t"));
  EXPECT_EQ(run({"char_lstm", "plain.pth", "--prompt", "abc", "--vocabulary", "all.txt", "-q"}).out,
            run({"char_lstm", "text.pt", "--prompt", "abc", "-q"}).out);
}

TEST_F(ZooRunText, GoesOnTheSameForTheSameSeed) {
  const std::vector<std::string> words = {"char_lstm", "text.pt", "--prompt", "ab", "--generate", "12", "-q"};
  auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    return run(more).out;
  };
  EXPECT_EQ(with({"--seed", "1"}), with({"--seed", "1"}));
  EXPECT_NE(with({"--seed", "1"}), with({"--seed", "2"}));
  EXPECT_EQ(with({"--seed", "1", "--temperature", "0"}), with({"--seed", "2", "--temperature", "0"}));
  EXPECT_EQ(with({"--seed", "1"}).size(), 15U);
  EXPECT_THAT(with({"--seed", "1"}), StartsWith("ab"));
}

TEST_F(ZooRunText, GeneratesJsonWithTokens) {
  const Outcome done = run({"char_lstm", "plain.pth", "--prompt", "1", "--generate", "2", "--json"});
  EXPECT_THAT(done.out,
              AllOf(HasSubstr("\"prompt\": [\n    1\n  ]"), HasSubstr("\"tokens\": ["), Not(HasSubstr("text"))));
}

TEST_F(ZooRunText, RefusesPromptsThatMakeNoSense) {
  expect_error({"char_lstm", "text.pt", "-q", "--prompt", "abx"}, 2, "the vocabulary of 5 has no 'x'");
  expect_error({"char_lstm", "plain.pth", "-q", "--prompt", "abc"}, 2, "not a list of token ids such as 15496,11,995");
  expect_error({"char_lstm", "plain.pth", "-q", "--prompt", "7"}, 2,
               "token 7 is past the last of the model's 5 tokens");
}

TEST_F(ZooRunText, AsksForTheHeadsOfAGptByTheOptionsName) {
  const zoo::NanoGPT net({.block_size = 4, .vocab_size = 5, .n_layer = 1, .n_head = 2, .n_embd = 6});
  ckpt::save(net.state_dict(), dir_.path() / "gpt.pth");
  expect_error({"nanogpt_gpt2", "gpt.pth", "-q", "--prompt", "1"}, 2,
               "how many attention heads the model has; --heads says it");
  EXPECT_EQ(run({"nanogpt_gpt2", "gpt.pth", "-q", "--prompt", "1", "--heads", "2"}).code, 0);
}

TEST_F(ZooRunText, GptsGoOnPastTheirLastPosition) {
  const Outcome done =
      run({"nanogpt_shakespeare_char", "--random", "--prompt", "1", "--generate", "3", "--temperature", "0", "-q"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(std::count(done.out.begin(), done.out.end(), ','), 2) << done.out;
}

/// A folder as Hugging Face publishes them.
class ZooInfo : public ZooRun {
 protected:
  Outcome info(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"zoo", "info"});
    return test::run_ckpt(dir_.path(), arguments);
  }
  void make_folder(const std::string& more = "") const {
    std::filesystem::create_directory(dir_.path() / "gpt");
    const std::string fields = R"("vocab_size": 11, "n_positions": 8, "n_embd": 8, "n_layer": 2, "n_head": 2)";
    write("gpt/config.json", "{\"architectures\": [\"GPT2LMHeadModel\"], " + fields + more + "}");
    auto net = zoo::make("GPT2LMHeadModel", zoo::Config::parse("{" + fields + "}"));
    ckpt::save(net->state_dict(), dir_.path() / "gpt" / "model.safetensors");
  }
};

TEST_F(ZooInfo, SaysWhatAFoldersModelIsBuiltFrom) {
  make_folder();
  const Outcome done = info({"gpt"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, StartsWith("gpt: GPT2LMHeadModel, 1,912 parameters, 7.5 KiB in float32\nweights: fit\n"));
  EXPECT_THAT(done.out, HasSubstr("  n_embd 8\n"));
  EXPECT_EQ(info({"-q", "gpt"}).out, "GPT2LMHeadModel\n");
}

TEST_F(ZooInfo, KnowsModelsAndFamilies) {
  const Outcome done = info({"resnext50_32x4d", "--json"});
  EXPECT_THAT(done.out, AllOf(HasSubstr("\"family\": \"ResNet\""), HasSubstr("\"groups\": 32"),
                              HasSubstr("\"parameters\": 25028904")));
  EXPECT_THAT(info({"GPT2Model"}).out, StartsWith("GPT2Model: GPT2Model, 124,439,808 parameters"));
}

TEST_F(ZooInfo, NamesTheFieldThatIsNotHere) {
  make_folder(R"(, "reorder_and_upcast_attn": true)");
  const Outcome done = info({"gpt"});
  EXPECT_NE(done.code, 0);
  EXPECT_THAT(done.err,
              HasSubstr("field 'reorder_and_upcast_attn' of GPT2LMHeadModel is true, and only false is here"));
}

TEST_F(ZooInfo, SaysThatWeightsAreOfAnotherSize) {
  make_folder(R"(, "n_inner": 12)");
  EXPECT_THAT(info({"gpt"}).out, HasSubstr("weights: do not fit"));
}

TEST_F(ZooInfo, RefusesAnUnknownName) {
  const Outcome done = info({"resnet5"});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("'resnet5' is neither a folder nor a known model"));
}

}  // namespace
