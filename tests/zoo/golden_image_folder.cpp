// ImageFolder with its default loader beside torchvision's: classes, samples and their order, every pixel.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "libckpt/io/byte_source.h"
#include "tests/support/golden.h"
#include "zoo/data/datasets.h"
#include "zoo/data/ppm.h"

namespace {

namespace fs = std::filesystem;

struct Line {
  std::string path;  ///< below the folder of pictures
  std::int64_t label;
};

std::vector<Line> lines_of(const fs::path& file) {
  std::ifstream in(file);
  std::vector<Line> lines;
  for (std::string line; std::getline(in, line);) {
    const std::size_t tab = line.find('\t');
    lines.push_back({line.substr(0, tab), std::stoll(line.substr(tab + 1))});
  }
  return lines;
}

std::string fault_of(const zoo::datasets::ImageFolder& data, std::int64_t index, const fs::path& expected) {
  const auto [image, label] = data.get(index);
  const zoo::Image wanted = zoo::parse_ppm(ckpt::read_all(*ckpt::open_file(expected)));
  if (image.sizes() != core::Shape{3, wanted.height, wanted.width}) return "it has " + core::to_list(image.sizes());
  const core::Tensor pixels = image.permute({1, 2, 0}).contiguous();
  const std::vector<std::uint8_t> found = pixels.to_vector<std::uint8_t>();
  std::size_t off = 0;
  int most = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    off += found[i] != wanted.pixels[i] ? 1U : 0U;
    most = std::max(most, std::abs(found[i] - wanted.pixels[i]));
  }
  if (off == 0) return "";
  return std::to_string(off) + " of " + std::to_string(found.size()) + " values differ, by up to " +
         std::to_string(most);
}

}  // namespace

int main() {
  const auto root = test::golden_file("image_folder");
  if (!root) return 77;
  test::GoldenRun run("image_folder");
  const std::vector<Line> lines = lines_of(*root / "samples.txt");
  const zoo::datasets::ImageFolder data(*root / "pictures");
  run.check("samples", data.size() == static_cast<std::int64_t>(lines.size()), std::to_string(data.size()));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& [path, label] = data.samples().at(i);
    const std::string here = fs::path(path).lexically_relative(*root / "pictures").string();
    run.check(lines[i].path + ", order", here == lines[i].path && label == lines[i].label, here);
    try {
      const std::string fault =
          fault_of(data, static_cast<std::int64_t>(i), *root / "pixels" / (std::to_string(i) + ".ppm"));
      run.check(lines[i].path, fault.empty(), fault);
    } catch (const std::exception& error) {
      run.fail(lines[i].path, error.what());
    }
  }
  return run.finish();
}
