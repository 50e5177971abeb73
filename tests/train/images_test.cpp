// Folders of images as data.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "libcore/tensor/tensor.h"
#include "tests/train/image_folder.h"
#include "tools/train/plan.h"

namespace {

namespace fs = std::filesystem;
using core::Shape;
using test::ImageFolder;
using test::write_grey;
using test::write_red;
using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const train::DataRequest& request) {
  try {
    train::load_data(request);
  } catch (const core::Error& error) {
    return error.what();
  }
  return "no error";
}

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
  EXPECT_THAT(error_of(request()), HasSubstr("b/2.png: is not an image, though its name says so"));
  test::write_file(at("b/2.png"), "GIF89a..............");
  EXPECT_THAT(error_of(request()), HasSubstr("b/2.png: a GIF image is not read"));
}

}  // namespace
