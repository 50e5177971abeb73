// ckpt plan --batch: what it says that a pass takes, beside what the allocator of a device counts in one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libckpt/io/json.h"
#include "libcore/autograd/saved_hooks.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/logical_devices.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "tests/cli/files.h"
#include "tests/support/golden.h"
#include "zoo/from_folder.h"
#include "zoo/zoo.h"

namespace {

using ckpt::JsonDocument;
using core::Tensor;
using testing::HasSubstr;
using testing::Not;
using namespace test;

constexpr const char* kDevice = "cuda:0";

struct Pass {
  double kept = 0, between = 0;
};

/// As a training does it: drawn weights, gradients that are there already.
Pass pass_of(core::Module& model, const Tensor& input, bool per_token) {
  model.to(core::Device(kDevice));
  model.train();
  Pass out;
  for (int step = 0; step < 2; ++step) {
    model.zero_grad(false);
    const auto before = static_cast<double>(core::cuda::memory_allocated(kDevice));
    core::cuda::reset_peak_memory_stats(kDevice);
    const Tensor x = input.to(core::Device(kDevice));
    const Tensor y = model.call(x);
    const Tensor rows = per_token ? y.flatten(0, 1) : y;
    const Tensor target = core::zeros({rows.size(0)}, {.dtype = core::DType::i64, .device = core::Device(kDevice)});
    const Tensor loss = core::cross_entropy(rows, target);
    out.kept = static_cast<double>(core::cuda::memory_allocated(kDevice)) - before;
    loss.backward();
    out.between = static_cast<double>(core::cuda::max_memory_allocated(kDevice)) - before - out.kept;
  }
  return out;
}

class CliActivations : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(built_program("ckpt-run"))) GTEST_SKIP() << "ckpt-run was not built";
    write_checkpoint(dir_.path() / "net.pth", dict({{"fc.bias", tensor({1, 2})}}));
    core::set_logical_devices(1);
  }
  Outcome plan(std::vector<std::string> words) const {
    words.insert(words.begin(), "plan");
    return run_ckpt(dir_.path(), words);
  }
  Pass planned(std::vector<std::string> words) const {
    words.insert(words.end(), {"--optimizer", "sgd", "--json"});
    const Outcome done = plan(words);
    EXPECT_EQ(done.code, 0) << done.err;
    const JsonDocument json = JsonDocument::parse(done.out);
    const ckpt::JsonView said = json.root().at("activations");
    return {static_cast<double>(said.at("kept_bytes").as_unsigned()),
            static_cast<double>(said.at("between_bytes").as_unsigned())};
  }
  static void expect_close(const Pass& said, const Pass& measured) {
    EXPECT_NEAR(said.kept, measured.kept, 0.02 * measured.kept);  // blocks of an allocator are a little larger
    EXPECT_GE(said.kept + said.between, 0.98 * (measured.kept + measured.between));
    EXPECT_LE(said.kept + said.between, 1.5 * (measured.kept + measured.between));
  }
  TempDir dir_;
};

TEST_F(CliActivations, OfImagesAreThoseOfAPass) {
  for (const std::int64_t batch : {2, 8}) {
    const Pass said = planned({"net.pth", "--for", "resnet18", "--size", "64", "--batch", std::to_string(batch)});
    expect_close(said, pass_of(*zoo::make("resnet18"), core::rand({batch, 3, 64, 64}), false));
  }
  const Pass said = planned({"net.pth", "--for", "lenet5", "--batch", "256"});
  expect_close(said, pass_of(*zoo::make("lenet5"), core::rand({256, 1, 28, 28}), false));
}

TEST_F(CliActivations, OfTextsAreThoseOfAPass) {
  const auto golden = golden_file("text/folders/llama");
  if (!golden) GTEST_SKIP() << "no golden data";
  std::filesystem::copy(*golden, dir_.path() / "net", std::filesystem::copy_options::recursive);
  const zoo::FolderModel model = zoo::from_folder(dir_.path() / "net", {.dtype = core::DType::f32});
  const Pass said = planned({"net", "--length", "90", "--batch", "8", "--dtype", "f32"});
  expect_close(said, pass_of(*model.model, core::zeros({8, 90}, {.dtype = core::DType::i64}), true));
}

/// By another way: every block of memory that autograd keeps, once.
TEST_F(CliActivations, AreWhatBackwardNeeds) {
  const auto model = zoo::make("lenet5");
  std::map<const void*, std::size_t> kept;
  const Tensor x = core::rand({64, 1, 28, 28});
  Tensor loss;
  {
    core::saved_tensors_hooks guard(
        [&](const Tensor& t) {
          kept[t.storage().id()] = t.storage().nbytes();
          return t;
        },
        [](const Tensor& t) { return t; });
    loss = core::cross_entropy(model->call(x), core::zeros({64}, {.dtype = core::DType::i64}));
  }
  for (const Tensor& parameter : model->parameters()) kept.erase(parameter.storage().id());
  double bytes = 0;
  for (const auto& [block, size] : kept) bytes += static_cast<double>(size);
  const Pass said = planned({"net.pth", "--for", "lenet5", "--batch", "64"});
  EXPECT_GE(said.kept, bytes);
  EXPECT_LT(said.kept, 1.1 * bytes);  // what comes out, too
}

TEST_F(CliActivations, AreSharedByDevicesAndSaidInRows) {
  const Outcome done = plan({"net.pth", "--for", "lenet5", "--batch", "7", "--devices", "2", "--optimizer", "adam"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("activations: of 4 images of 1 x 28 x 28 on each device, weights in float32"));
  EXPECT_THAT(done.out, HasSubstr("  activations "));
  EXPECT_THAT(done.out, HasSubstr("not counted: what CUDA"));
  const Outcome run = plan({"net.pth", "--for", "lenet5", "--batch", "2"});
  EXPECT_THAT(run.out, HasSubstr("results in between           forward"));
  EXPECT_THAT(run.out, Not(HasSubstr("backward")));
  const Pass half = planned({"net.pth", "--for", "lenet5", "--batch", "512", "--amp", "bf16"});
  EXPECT_LT(half.kept, 0.8 * planned({"net.pth", "--for", "lenet5", "--batch", "512"}).kept);
  const Outcome small = plan({"net.pth", "--for", "lenet5", "--batch", "64", "--memory", "400KB"});
  EXPECT_EQ(small.code, 1);
  EXPECT_THAT(small.out, HasSubstr("does not fit: cuda:0 needs "));
  EXPECT_THAT(small.out, Not(HasSubstr("before any activation")));
}

TEST_F(CliActivations, SayWhatCannotBeCounted) {
  const auto refused = [&](std::vector<std::string> words, const std::string& text) {
    words.insert(words.begin(), "plan");
    expect_refused(dir_, words, 2, text, "");
  };
  refused({"net.pth", "--batch", "2"}, "'net.pth' is neither a known model (ckpt zoo ls) nor a folder");
  refused({"net.pth", "--for", "lenet5", "--batch", "2", "--length", "4"}, "--length is for models of texts");
  refused({"net.pth", "--for", "gpt2", "--batch", "2", "--size", "4"}, "--size is for models of images");
  refused({"net.pth", "--for", "gpt2", "--batch", "2", "--length", "2000"}, "more than the 1024 positions of 'gpt2'");
  refused({"net.pth", "--for", "bert_base", "--batch", "2", "--length", "900"},
          "'bert_base' does not take texts of 900 tokens: ");
  refused({"net.pth", "--for", "lenet5", "--size", "4"}, "--batch says how much");
  refused({"net.pth", "--for", "lenet5", "--batch", "2", "--optimizer", "sgd", "--dtype", "int8"}, "trained in int8");
  for (const char* devices : {"1", "4"}) {
    refused({"net.pth", "--for", "lenet5", "--batch", "9223372036854775807", "--devices", devices},
            " images of 1 x 28 x 28 at once take more memory than can be counted");
  }
  expect_refused(dir_, {"plan", "net.pth", "--for", "simple_rnn", "--batch", "2"}, 3, "something else than one image",
                 "");
}

TEST_F(CliActivations, SayThatTheProgramWasEnded) {
  const std::filesystem::path program = dir_.path() / "ckpt-run";
  write_file(program, "#!/bin/sh\nkill -9 $$\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const Outcome done = run_ckpt(dir_.path(), {"plan", "net.pth", "--for", "lenet5", "--batch", "2"},
                                {.in_child = [&] { ::setenv("CKPT_RUN", program.c_str(), 1); }});
  EXPECT_EQ(done.code, 5);
  EXPECT_THAT(done.err, HasSubstr("ended with exit code 137, as it does where the machine has no memory left for it"));
}

}  // namespace
