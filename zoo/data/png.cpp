// PNG through libpng. Its errors leave by longjmp: nothing with a destructor is made between setjmp and the calls.

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libcore/base/error.h"
#include "zoo/data/image_file.h"

namespace zoo {
namespace {

struct Decoder {
  core::Bytes content;
  std::size_t at = 0;
  char message[160] = {};
  bool clips = false;  ///< rows are of 16 bits
  bool needs_end = true;
  bool has_pixels = false;  ///< all of them
  bool is_cut_off = false;
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

void on_read(png_structp png, png_bytep to, std::size_t count) {
  auto& decoder = *static_cast<Decoder*>(png_get_io_ptr(png));
  if (count > decoder.content.size() - decoder.at) {
    decoder.is_cut_off = true;
    png_error(png, "cut off");
  }
  std::memcpy(to, decoder.content.data() + decoder.at, count);
  decoder.at += count;
}

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto& decoder = *static_cast<Decoder*>(png_get_error_ptr(png));
  std::strncpy(decoder.message, text, sizeof decoder.message - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

/// False with decoder.message set. Everything becomes 8-bit grey or RGB, but for grey of 16 bits that is to be clipped.
bool read_header(Decoder& decoder, ImageReading how) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &decoder, on_read);
  png_read_info(decoder.png, decoder.info);
  const bool is_wide_grey = png_get_color_type(decoder.png, decoder.info) == PNG_COLOR_TYPE_GRAY &&
                            png_get_bit_depth(decoder.png, decoder.info) == 16;
  png_set_expand(decoder.png);
  decoder.clips = is_wide_grey && how == ImageReading::pillow;
  if (!decoder.clips) png_set_strip_16(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

bool read_rows(Decoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return decoder.has_pixels && decoder.is_cut_off && !decoder.needs_end;
  png_read_image(decoder.png, rows);
  decoder.has_pixels = true;
  png_read_end(decoder.png, nullptr);
  return true;
}

void require(bool good, const Decoder& decoder) {
  if (good) return;
  throw core::Error(core::ErrorCode::corrupt, std::string("a damaged PNG image: ") + decoder.message);
}

/// Of 16 bits a value.
Image clipped_grey(Decoder& decoder, Image image) {
  std::vector<std::uint8_t> wide(image.pixels.size() * 2);
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < image.height; ++y) rows.push_back(wide.data() + y * image.width * 2);
  require(read_rows(decoder, rows.data()), decoder);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = wide[2 * i] != 0 ? std::uint8_t{255} : wide[2 * i + 1];
  }
  return image;
}

}  // namespace

Image read_png(core::Bytes content, ImageReading how) {
  Decoder decoder;
  decoder.content = content;
  decoder.needs_end = how == ImageReading::careful;
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, on_error, on_warning);
  if (decoder.png == nullptr) throw std::bad_alloc();
  decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) throw std::bad_alloc();
  require(read_header(decoder, how), decoder);
  Image image =
      make_image(png_get_image_width(decoder.png, decoder.info), png_get_image_height(decoder.png, decoder.info),
                 png_get_channels(decoder.png, decoder.info));
  if (decoder.clips) return clipped_grey(decoder, std::move(image));
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < image.height; ++y) rows.push_back(image.row(y));
  require(read_rows(decoder, rows.data()), decoder);
  return image;
}

}  // namespace zoo
