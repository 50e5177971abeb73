// ckpt zoo export as a user meets it; what onnxruntime makes of such files is tests/libckpt/onnx.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "libckpt/bridge.h"
#include "libcore/parallel/data_parallel.h"
#include "tests/cli/program.h"
#include "tests/support/temp_dir.h"
#include "zoo/lenet.h"

namespace {

using test::Outcome;
using testing::HasSubstr;

class ZooExport : public ::testing::Test {
 protected:
  Outcome run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"zoo", "export"});
    return test::run_ckpt(dir_.path(), arguments);
  }
  test::TempDir dir_;
};

TEST_F(ZooExport, WritesTheWeightsOfAFileAsTheyLoad) {
  zoo::LeNet5 net;
  core::DataParallel<zoo::LeNet5> wrapped(net);
  ckpt::save(wrapped.state_dict(), dir_.path() / "lenet.pth");
  const Outcome done = run({"lenet5", "net.onnx", "--weights", "lenet.pth", "--dynamic-batch"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("strip 'module.'\n"));
  EXPECT_THAT(done.out, HasSubstr("operators of opset 17"));
  EXPECT_THAT(done.out, HasSubstr("images (batch, 1, 28, 28) to output (batch, 10)\n"));
  const core::Tensor kept = ckpt::to_tensor(
      ckpt::value_at(ckpt::open(dir_.path() / "net.onnx").root, "conv1.weight").as_entry(), core::Device("cpu"));
  EXPECT_EQ(kept.to_vector<float>(), net.state_dict().at("conv1.weight").to_vector<float>());
}

TEST_F(ZooExport, SaysInJsonWhatItWrote) {
  const Outcome done = run({"lenet5", "net.onnx", "--random", "--opset", "18", "--external-data", "--json"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("\"images (1, 1, 28, 28)\""));
  EXPECT_THAT(done.out, HasSubstr("\"opset\": 18"));
  EXPECT_THAT(test::list_folder(dir_.path()), testing::ElementsAre("net.onnx", "net.onnx.data"));
}

TEST_F(ZooExport, WritesOverAFileOnlyWhenTold) {
  std::ofstream(dir_.path() / "net.onnx") << "before";
  const Outcome refused = run({"lenet5", "net.onnx", "--random"});
  EXPECT_EQ(refused.code, 4) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("'net.onnx' already exists; -f overwrites it"));
  EXPECT_EQ(test::read_file(dir_.path() / "net.onnx"), "before");
  EXPECT_EQ(run({"lenet5", "net.onnx", "--random", "-f", "-q"}).code, 0);
  EXPECT_NE(test::read_file(dir_.path() / "net.onnx"), "before");
}

TEST_F(ZooExport, SaysWhatDoesNotFit) {
  const auto says = [&](const std::vector<std::string>& words, int code, const std::string& text) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(text));
    EXPECT_THAT(test::list_folder(dir_.path()), testing::IsEmpty());
  };
  says({"lenet5", "net.onnx"}, 2, "no file with weights is named");
  says({"lenet6", "net.onnx", "--random"}, 2, "did you mean 'lenet5'?");
  says({"lenet5", "net.onnx", "--random", "--opset", "19"}, 2, "opset 19 is not written: 17 and 18 are");
  says({"char_lstm", "net.onnx", "--random", "--size", "32"}, 2, "--size is for models of images");
  says({"bilstm_classifier", "net.onnx", "--random"}, 3, "takes something else than one image or text");
}

}  // namespace
