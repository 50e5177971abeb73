#include "tools/train/image_folder.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "libckpt/io/byte_source.h"
#include "libcore/base/error.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/sort.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "tools/train/hub_model.h"
#include "zoo/data/image_file.h"
#include "zoo/image_processor.h"
#include "zoo/preprocessing.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
using core::Tensor;
namespace fs = std::filesystem;

/// What torchvision takes for an image; those that are not read here are an error, not passed over.
bool is_named_as_image(const fs::path& path) {
  constexpr std::array kEnds = {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::find(kEnds.begin(), kEnds.end(), end) != kEnds.end();
}

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> images_below(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink)) {
    if (entry.is_regular_file() && is_named_as_image(entry.path())) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

zoo::Image read_image(const fs::path& path) {
  return core::with_context(path.string(), [&] {
    const core::ByteVector bytes = ckpt::read_all(*ckpt::open_file(path));
    std::optional<zoo::Image> image = zoo::try_read_image(bytes);
    if (!image) throw Error(ErrorCode::corrupt, "is not an image, though its name says so");
    return std::move(*image);
  });
}

/// One part of the data: files and the number of their class.
struct Listing {
  std::vector<fs::path> files;
  std::vector<std::int64_t> classes;
};

Listing list_images(const fs::path& folder, const std::vector<std::string>& names) {
  Listing listing;
  for (const fs::path& one : folders_in(folder)) {
    const auto name = std::find(names.begin(), names.end(), one.filename().string());
    if (name == names.end()) {
      throw Error(ErrorCode::usage, one.string() + ": the images to learn from have no such class");
    }
    const std::vector<fs::path> images = images_below(one);
    if (images.empty()) throw Error(ErrorCode::usage, one.string() + ": a class without an image");
    listing.files.insert(listing.files.end(), images.begin(), images.end());
    listing.classes.insert(listing.classes.end(), images.size(), name - names.begin());
  }
  return listing;
}

struct Wanted {
  std::optional<zoo::Preprocessing> steps;       ///< none: images as they are
  std::optional<zoo::ImageProcessor> processor;  ///< of a model's folder, in place of those
  std::int64_t channels = 3;
};

Wanted wanted_by_folder(const std::string& model, std::int64_t resize) {
  zoo::ImageProcessor processor = zoo::folder_image_processor(model);
  if (resize != 0) {
    processor.height = processor.width = 0;
    processor.shorter = processor.crop_height = processor.crop_width = resize;
  }
  const std::int64_t channels = processor.channels;
  return {.steps = {}, .processor = processor, .channels = channels};
}

Wanted wanted_by(const std::string& model, std::int64_t resize, const zoo::Image& first) {
  if (is_model_folder(model)) return wanted_by_folder(model, resize);
  Wanted wanted{.steps = zoo::preprocessing(model), .processor = {}, .channels = first.channels};
  if (!wanted.steps && resize != 0) {
    wanted.steps = zoo::Preprocessing{.channels = first.channels, .mean = {0, 0, 0}, .std = {1, 1, 1}};
  }
  if (wanted.steps && resize != 0) wanted.steps->resize = wanted.steps->crop = resize;
  if (wanted.steps) wanted.channels = wanted.steps->channels;
  return wanted;
}

zoo::Image brought_to(const Wanted& wanted, const zoo::Image& image) {
  if (wanted.processor) return zoo::sized(image, *wanted.processor);
  if (wanted.steps) return zoo::sized(image, *wanted.steps);
  return wanted.channels == 1 ? zoo::to_grey(image) : zoo::to_rgb(image);
}

/// Pixels side by side to planes. (channels, height, width)
void put_planes(const zoo::Image& image, std::uint8_t* to) {
  const std::int64_t plane = image.width * image.height;
  for (std::int64_t c = 0; c < image.channels; ++c) {
    for (std::int64_t i = 0; i < plane; ++i) {
      *to++ = image.pixels[static_cast<std::size_t>(i * image.channels + c)];
    }
  }
}

Rows read_rows(const Listing& listing, const Wanted& wanted) {
  Rows rows;
  core::Shape row;  // (channels, height, width) of the first
  std::uint8_t* to = nullptr;
  for (const fs::path& file : listing.files) {
    const zoo::Image image = brought_to(wanted, read_image(file));
    const core::Shape shape = {image.channels, image.height, image.width};
    if (to == nullptr) {
      row = shape;
      rows.inputs = core::empty({static_cast<std::int64_t>(listing.files.size()), row[0], row[1], row[2]},
                                {.dtype = core::DType::u8});
      to = rows.inputs.mutable_data<std::uint8_t>();
    }
    if (shape != row) {
      throw Error(ErrorCode::usage, file.string() + ": an image of " + core::to_list(shape) + " where " +
                                        listing.files.front().string() + " is one of " + core::to_list(row) +
                                        "; --resize N brings all to N x N");
    }
    put_planes(image, to);
    to += image.pixels.size();
  }
  rows.targets = core::from_values(listing.classes);
  return rows;
}

Tensor by_channel(const std::array<float, 3>& values, std::int64_t channels) {
  const std::vector<float> some(values.begin(), values.begin() + channels);
  return core::from_values(some).view({1, channels, 1, 1});
}

/// The folder of the rows to test on, empty where there is none.
fs::path test_folder(const fs::path& folder) {
  for (const char* name : {"test", "val", "valid"}) {
    if (holds_classes(folder / name)) return folder / name;
  }
  return {};
}

}  // namespace

bool holds_classes(const fs::path& folder) {
  const std::vector<fs::path> classes = fs::is_directory(folder) ? folders_in(folder) : std::vector<fs::path>();
  return std::any_of(classes.begin(), classes.end(), [](const fs::path& one) { return !images_below(one).empty(); });
}

DataSet load_image_folder(const fs::path& folder, const DataRequest& request) {
  DataSet data{.name = fs::path(folder / "").parent_path().filename().string(), .source = folder.string()};
  const bool in_parts = holds_classes(folder / "train");
  const fs::path train = in_parts ? folder / "train" : folder;
  const fs::path test = in_parts ? test_folder(folder) : fs::path();
  if (request.like != nullptr) data.class_names = request.like->class_names;
  if (request.like == nullptr) {
    for (const fs::path& one : folders_in(train)) data.class_names.push_back(one.filename().string());
    if (is_model_folder(request.model)) data.class_names = in_order_of_model(request.model, data.class_names);
  }
  data.classes = static_cast<std::int64_t>(data.class_names.size());
  const Listing listing = list_images(train, data.class_names);
  const zoo::Image first = read_image(listing.files.front());
  data.preset = {first.channels == 1 ? "lenet5" : "resnet18", 64, 10, 32, "adam", 0.001};
  if (is_model_folder(request.model)) data.preset = kFineTuning;
  const Wanted wanted = wanted_by(request.model.empty() ? data.preset.model : request.model, request.resize, first);
  data.divisor = 255;
  if (wanted.processor) {
    data.divisor = 1 / wanted.processor->scale;
    data.mean = by_channel(wanted.processor->mean, wanted.channels);
    data.deviation = by_channel(wanted.processor->std, wanted.channels);
  }
  if (wanted.steps) {
    data.mean = by_channel(wanted.steps->mean, wanted.channels);
    data.deviation = by_channel(wanted.steps->std, wanted.channels);
  }
  data.train = read_rows(listing, wanted);
  if (!test.empty()) data.test = read_rows(list_images(test, data.class_names), wanted);
  return data;
}

}  // namespace train
