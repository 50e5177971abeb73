// Images in any order of dimensions, as PNG through libpng.

#include <png.h>

#include <algorithm>
#include <cctype>

#include "libcore/base/error.h"
#include "libcore/tensorboard/summaries.h"
#include "libcore/tensorboard/wire.h"

namespace core::tensorboard {
namespace {

constexpr std::int64_t kColumns = 8;

/// Rows of pixels of 1 to 4 bytes.
struct Picture {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<unsigned char> bytes;
};

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

void check_formats(const Tensor& image, const std::string& formats) {
  std::string sorted = formats;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    throw Error(ErrorCode::assertion, "You can not use the same dimension shorthand twice. input_format: " + formats);
  if (static_cast<std::size_t>(image.dim()) != formats.size())
    throw Error(ErrorCode::assertion, "size of input tensor and input format are different. tensor shape: " +
                                          to_list(image.sizes()) + ", input_format: " + formats);
  std::string known = upper(formats);
  std::sort(known.begin(), known.end());
  if (known == "CHNW" || known == "CHW" || known == "HW") return;
  throw Error(ErrorCode::value,
              "dataformats \"" + formats + "\" is none of NCHW, CHW, HWC, HW or another order of these");
}

/// The image as N, H, W, C, whatever it lacks of size 1.
Tensor in_order(const Tensor& image, const std::string& formats) {
  Tensor whole = image.detach();
  std::string have = upper(formats);
  for (const char dimension : std::string("NC")) {
    if (have.find(dimension) != std::string::npos) continue;
    whole = whole.unsqueeze(0);
    have.insert(have.begin(), dimension);
  }
  std::vector<std::int64_t> order;
  for (const char dimension : std::string("NHWC")) order.push_back(static_cast<std::int64_t>(have.find(dimension)));
  return whole.permute(order).contiguous();
}

unsigned char pixel(float value, float scale) {
  const float scaled = value * scale;
  return static_cast<unsigned char>(scaled > 0 ? std::min(scaled, 255.0F) : 0.0F);
}

/// Images side by side; one channel becomes three.
Picture grid_of(const Tensor& images, std::int64_t columns) {
  const std::int64_t count = images.size(0), height = images.size(1), width = images.size(2), channels = images.size(3);
  const std::int64_t rows = (count + columns - 1) / columns;
  Picture picture{
      .height = height * rows, .width = width * columns, .channels = channels == 1 ? 3 : channels, .bytes = {}};
  picture.bytes.resize(static_cast<std::size_t>(picture.height * picture.width * picture.channels));
  const float scale = images.dtype() == DType::u8 ? 1.0F : 255.0F;
  const std::vector<float> values = images.to_vector<float>();
  const float* from = values.data();
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t y = 0; y < height; ++y) {
      const std::int64_t row = i / columns * height + y, column = i % columns * width;
      unsigned char* to = &picture.bytes[static_cast<std::size_t>((row * picture.width + column) * picture.channels)];
      for (std::int64_t x = 0; x < width; ++x, from += channels) {
        for (std::int64_t c = 0; c < picture.channels; ++c) *to++ = pixel(from[channels == 1 ? 0 : c], scale);
      }
    }
  }
  return picture;
}

std::string encode(const Picture& picture) {
  constexpr png_uint_32 kFormats[] = {0, PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB, PNG_FORMAT_RGBA};
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = kFormats[picture.channels];
  png_alloc_size_t size = 0;
  std::string out;
  bool good = png_image_write_to_memory(&image, nullptr, &size, 0, picture.bytes.data(), 0, nullptr) != 0;
  out.resize(size);
  good = good && png_image_write_to_memory(&image, out.data(), &size, 0, picture.bytes.data(), 0, nullptr) != 0;
  if (!good) throw Error(ErrorCode::value, std::string("the image cannot be written as PNG: ") + image.message);
  out.resize(size);
  return out;
}

void check_sizes(const Tensor& images, bool several) {
  const std::int64_t channels = images.size(3);
  if (several && channels != 1 && channels != 3)
    throw Error(ErrorCode::assertion, "Input should be a 4D numpy array with 3 channels");
  if (channels < 1 || channels > 4)
    throw Error(ErrorCode::type, "an image has 1 to 4 channels, this one has " + std::to_string(channels));
  if (images.numel() == 0) throw Error(ErrorCode::value, "The image has no element.");
}

}  // namespace

std::string image_summary(const std::string& tag, const Tensor& image, const std::string& dataformats) {
  check_formats(image, dataformats);
  const Tensor images = in_order(image, dataformats);
  const bool several = dataformats.size() == 4;
  check_sizes(images, several);
  const Picture picture = grid_of(images, several ? std::min(images.size(0), kColumns) : 1);
  std::string message, value, out;
  wire::integer(message, 1, picture.height);
  wire::integer(message, 2, picture.width);
  wire::integer(message, 3, picture.channels);
  wire::bytes(message, 4, encode(picture));
  wire::bytes(value, 1, tag);
  wire::bytes(value, 4, message);
  wire::bytes(out, 1, value);
  return out;
}

}  // namespace core::tensorboard
