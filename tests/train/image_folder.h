#pragma once
// A folder of small images that a test writes. Thread safety: none. Use: class MyTest : public test::ImageFolder {};

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"
#include "tools/train/plan.h"

namespace test {

/// A grey image of one value.
inline void write_grey(const std::filesystem::path& path, int width, int height, char value) {
  std::filesystem::create_directories(path.parent_path());
  write_file(path, "P5 " + std::to_string(width) + " " + std::to_string(height) + " 255\n" +
                       std::string(static_cast<std::size_t>(width * height), value));
}
inline void write_red(const std::filesystem::path& path, int width, int height) {
  std::filesystem::create_directories(path.parent_path());
  std::string pixels;
  for (int i = 0; i < width * height; ++i) pixels += std::string("\xFF\0\0", 3);
  write_file(path, "P6 " + std::to_string(width) + " " + std::to_string(height) + " 255\n" + pixels);
}

class ImageFolder : public testing::Test {
 protected:
  std::filesystem::path at(const std::string& name) const { return dir_.path() / name; }
  train::DataRequest request(const std::string& model = {}, std::int64_t resize = 0) const {
    return {.name = dir_.path().string(), .split = "none", .model = model, .resize = resize};
  }
  TempDir dir_;
};

}  // namespace test
