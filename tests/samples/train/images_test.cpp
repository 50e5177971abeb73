// Folders of images as data, and models whose auxiliary heads learn along.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "libcore/tensor/nn_ops.h"
#include "libcore/tensor/ops.h"
#include "libcore/tensor/random.h"
#include "samples/train/plan.h"
#include "samples/train/task.h"
#include "tests/support/temp_dir.h"
#include "zoo/googlenet.h"
#include "zoo/inception.h"

namespace {

namespace fs = std::filesystem;
using core::Shape;
using core::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

/// A grey image of one value.
void write_grey(const fs::path& path, int width, int height, char value) {
  fs::create_directories(path.parent_path());
  test::write_file(path, "P5 " + std::to_string(width) + " " + std::to_string(height) + " 255\n" +
                             std::string(static_cast<std::size_t>(width * height), value));
}
void write_red(const fs::path& path, int width, int height) {
  fs::create_directories(path.parent_path());
  std::string pixels;
  for (int i = 0; i < width * height; ++i) pixels += std::string("\xFF\0\0", 3);
  test::write_file(path, "P6 " + std::to_string(width) + " " + std::to_string(height) + " 255\n" + pixels);
}

std::string error_of(const train::DataRequest& request) {
  try {
    train::load_data(request);
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

class ImageFolder : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return dir_.path() / name; }
  train::DataRequest request(const std::string& model = {}, std::int64_t resize = 0) const {
    return {.name = dir_.path().string(), .split = "none", .model = model, .resize = resize};
  }
  test::TempDir dir_;
};

TEST_F(ImageFolder, ClassesAreFoldersInTheOrderOfTheirNames) {
  write_grey(at("dog/b.pgm"), 28, 28, 20);
  write_grey(at("dog/deeper/a.pgm"), 28, 28, 30);
  write_grey(at("cat/z.PGM"), 28, 28, 10);
  test::write_file(at("cat/notes.txt"), "no image");
  const train::DataSet data = train::load_data(request());
  EXPECT_THAT(data.class_names, ElementsAre("cat", "dog"));
  EXPECT_EQ(data.classes, 2);
  EXPECT_THAT(data.train.targets.to_vector<std::int64_t>(), ElementsAre(0, 1, 1));
  EXPECT_EQ(data.train.inputs.sizes(), Shape({3, 1, 28, 28}));
  EXPECT_THAT(data.train.inputs.select(3, 0).select(2, 0).flatten().to_vector<std::uint8_t>(), ElementsAre(10, 20, 30));
  EXPECT_STREQ(data.preset.model, "lenet5");
}

TEST_F(ImageFolder, ImagesBecomeWhatTheModelWants) {
  write_red(at("a/1.ppm"), 40, 20);
  write_grey(at("b/1.pgm"), 10, 30, 0);
  const train::DataSet data = train::load_data(request("resnet18", 16));
  EXPECT_EQ(data.train.inputs.sizes(), Shape({2, 3, 16, 16}));
  EXPECT_THAT(data.train.inputs.select(0, 0).select(1, 0).select(1, 0).to_vector<std::uint8_t>(),
              ElementsAre(255, 0, 0));
  EXPECT_FLOAT_EQ(data.mean.flatten().to_vector<float>()[0], 0.485F);
  EXPECT_FLOAT_EQ(data.deviation.flatten().to_vector<float>()[2], 0.225F);
}

TEST_F(ImageFolder, TrainAndTestMayLieApart) {
  write_grey(at("train/a/1.pgm"), 28, 28, 1);
  write_grey(at("train/b/1.pgm"), 28, 28, 2);
  write_grey(at("val/b/1.pgm"), 28, 28, 3);
  train::DataRequest parts = request();
  parts.split = "";
  const train::DataSet data = train::load_data(parts);
  EXPECT_EQ(data.train.size(), 2);
  EXPECT_THAT(data.test.targets.to_vector<std::int64_t>(), ElementsAre(1));
  write_grey(at("val/c/1.pgm"), 28, 28, 3);
  EXPECT_THAT(error_of(parts), HasSubstr("val/c: the images to learn from have no such class"));
}

TEST_F(ImageFolder, SaysWhatIsWrongWithAnImage) {
  write_grey(at("a/1.pgm"), 28, 28, 1);
  fs::create_directories(at("b"));
  EXPECT_THAT(error_of(request()), HasSubstr("/b: a class without an image"));
  write_grey(at("b/1.pgm"), 20, 28, 1);
  EXPECT_THAT(error_of(request("linear")), HasSubstr("b/1.pgm: an image of [1, 28, 20] where"));
  EXPECT_EQ(error_of(request("linear", 8)), "no error");
  test::write_file(at("b/2.png"), "nothing of that kind");
  EXPECT_THAT(error_of(request()), HasSubstr("b/2.png: is no image, though its name says so"));
  test::write_file(at("b/2.png"), "GIF89a..............");
  EXPECT_THAT(error_of(request()), HasSubstr("b/2.png: a GIF image is not read"));
}

/// The task of a model with auxiliary heads on two images, at the first step and without the noise of dropout.
struct HeadsRun {
  train::DataSet data;
  std::unique_ptr<train::Task> task;
  Tensor x, y;

  HeadsRun(train::RunOptions o, const train::DataRequest& request) : data(train::load_data(request)) {
    o.split = "none";
    o.in_order = true;
    fill_in(o, data);
    o.devices = "cpu";
    core::manual_seed(0);
    task = make_task(o, data);
    task->module().eval();
    task->begin_epoch();
    EXPECT_TRUE(task->next());
    x = (data.train.inputs.to(core::DType::f32) / 255.0 - data.mean) / data.deviation;
    y = data.train.targets;
  }
  double loss_of(const Tensor& logits) const { return core::cross_entropy(logits, y).item<double>(); }
};

class AuxiliaryHeads : public ImageFolder {
 protected:
  HeadsRun run(const std::string& model, std::int64_t side) {
    write_red(at("a/1.ppm"), 32, 32);
    write_grey(at("b/1.pgm"), 32, 32, 9);
    train::RunOptions o;
    o.data = dir_.path().string();
    o.model = model;
    o.resize = side;
    return {o, request(model, side)};
  }
};

TEST_F(AuxiliaryHeads, OfGoogLeNetLearnAlong) {
  HeadsRun run = this->run("googlenet", 32);
  const auto out = dynamic_cast<zoo::GoogLeNet&>(run.task->model())(run.x, zoo::WithHeads{});
  const double wanted =
      run.loss_of(out.logits) + 0.3 * run.loss_of(out.aux_logits1) + 0.3 * run.loss_of(out.aux_logits2);
  EXPECT_NEAR(run.task->forward().loss.item<double>(), wanted, 1e-5);
}

/// In training all but dropout: without statistics of the batch the sums of so many layers grow without bounds.
TEST_F(AuxiliaryHeads, OfInceptionV3LearnAlong) {
  HeadsRun run = this->run("inception_v3", 299);
  auto& net = dynamic_cast<zoo::Inception3&>(run.task->model());
  net.train();
  net.dropout.eval();
  const auto out = net(run.x, zoo::WithHeads{});
  const double wanted = run.loss_of(out.logits) + 0.4 * run.loss_of(out.aux_logits);
  EXPECT_NEAR(run.task->forward().loss.item<double>(), wanted, 1e-4);
  EXPECT_GT(run.loss_of(out.aux_logits), 0.01);
}

}  // namespace
