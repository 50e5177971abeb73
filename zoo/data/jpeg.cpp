// JPEG through libjpeg. Its errors leave by longjmp: nothing with a destructor is made between setjmp and the calls.

#include <cstdio>  // jpeglib.h needs FILE
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <csetjmp>
#include <string>

#include "libcore/base/error.h"
#include "zoo/data/image_file.h"

namespace zoo {
namespace {

/// A progressive image is refined scan by scan, and each one is a pass over all of the pixels; encoders write about
/// ten, a file that means to take long may hold thousands.
constexpr int kMaxScans = 100;

struct Decoder {
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  jpeg_decompress_struct jpeg = {};
  std::jmp_buf escape = {};
  char message[JMSG_LENGTH_MAX] = {};
  bool damaged = false;       ///< the decoder went on past a hole in the data
  bool allows_holes = false;  ///< but for the end of the file
  ~Decoder() { jpeg_destroy_decompress(&jpeg); }
};

[[noreturn]] void on_error(j_common_ptr jpeg) {
  auto& decoder = *static_cast<Decoder*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, decoder.message);
  std::longjmp(decoder.escape, 1);
}

void on_progress(j_common_ptr jpeg) {
  auto& decoder = *static_cast<Decoder*>(jpeg->client_data);
  if (decoder.jpeg.input_scan_number <= kMaxScans) return;
  std::snprintf(decoder.message, sizeof decoder.message, "it has more than %d scans", kMaxScans);
  std::longjmp(decoder.escape, 1);
}

/// Pixels that were made up are no image; other deviations are harmless.
void on_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  auto& decoder = *static_cast<Decoder*>(jpeg->client_data);
  const int code = jpeg->err->msg_code;
  if (code != JWRN_JPEG_EOF && code != JWRN_HIT_MARKER && code != JWRN_HUFF_BAD_CODE) return;
  if (decoder.allows_holes && code != JWRN_JPEG_EOF) return;
  if (!decoder.damaged) jpeg->err->format_message(jpeg, decoder.message);
  decoder.damaged = true;
}

bool read_header(Decoder& decoder, core::Bytes content) {
  if (setjmp(decoder.escape) != 0) return false;
  jpeg_create_decompress(&decoder.jpeg);
  decoder.jpeg.progress = &decoder.progress;
  jpeg_mem_src(&decoder.jpeg, reinterpret_cast<const unsigned char*>(content.data()), content.size());
  jpeg_read_header(&decoder.jpeg, TRUE);
  return true;
}

bool read_rows(Decoder& decoder, Image& image) {
  if (setjmp(decoder.escape) != 0) return false;
  jpeg_start_decompress(&decoder.jpeg);
  while (decoder.jpeg.output_scanline < decoder.jpeg.output_height) {
    JSAMPROW row = image.row(decoder.jpeg.output_scanline);
    jpeg_read_scanlines(&decoder.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&decoder.jpeg);
  return !decoder.damaged;
}

void require(bool good, const Decoder& decoder) {
  if (good) return;
  throw core::Error(core::ErrorCode::corrupt, std::string("a damaged JPEG image: ") + decoder.message);
}

J_COLOR_SPACE colours_of(int components) {
  return components == 1 ? JCS_GRAYSCALE : components == 4 ? JCS_CMYK : JCS_RGB;
}

/// a * b / 255, rounded, of bytes.
int share(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

/// Files hold CMYK inverted, as Adobe's programs write it: a value is what is left of its light.
/// Source: the conversion in Pillow's Convert.c.
Image from_cmyk(const Image& inks) {
  Image image = make_image(inks.width, inks.height, 3);
  for (std::size_t i = 0; i < image.pixels.size() / 3; ++i) {
    const std::uint8_t* from = inks.pixels.data() + 4 * i;
    const int light = from[3];
    for (std::size_t c = 0; c < 3; ++c) {
      image.pixels[3 * i + c] = static_cast<std::uint8_t>(std::max(0, light - share(255 - from[c], light)));
    }
  }
  return image;
}

}  // namespace

Image read_jpeg(core::Bytes content, ImageReading how) {
  Decoder decoder;
  decoder.allows_holes = how == ImageReading::pillow;
  decoder.jpeg.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = on_error;
  decoder.errors.emit_message = on_message;
  decoder.progress.progress_monitor = on_progress;
  decoder.jpeg.client_data = &decoder;
  require(read_header(decoder, content), decoder);
  const int components = decoder.jpeg.num_components;
  if (components == 2 || components > 4) {
    throw core::Error(core::ErrorCode::unsupported,
                      "a JPEG image of " + std::to_string(components) + " components is not read; 1, 3 and 4 are");
  }
  decoder.jpeg.out_color_space = colours_of(components);
  Image image = make_image(decoder.jpeg.image_width, decoder.jpeg.image_height, components);
  require(read_rows(decoder, image), decoder);
  return components == 4 ? from_cmyk(image) : image;
}

}  // namespace zoo
