// PNG through libpng. Its errors leave by longjmp: nothing with a destructor is made between setjmp and the calls.

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <memory>
#include <string>

#include "libcore/base/error.h"
#include "tools/support/image_file.h"

namespace cli {
namespace {

struct Decoder {
  core::Bytes content;
  std::size_t at = 0;
  char message[160] = {};
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

void on_read(png_structp png, png_bytep to, std::size_t count) {
  auto& decoder = *static_cast<Decoder*>(png_get_io_ptr(png));
  if (count > decoder.content.size() - decoder.at) png_error(png, "cut off");
  std::memcpy(to, decoder.content.data() + decoder.at, count);
  decoder.at += count;
}

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto& decoder = *static_cast<Decoder*>(png_get_error_ptr(png));
  std::strncpy(decoder.message, text, sizeof decoder.message - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

/// False with decoder.message set. Everything becomes 8-bit grey or RGB.
bool read_header(Decoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &decoder, on_read);
  png_read_info(decoder.png, decoder.info);
  png_set_expand(decoder.png);
  png_set_strip_16(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

bool read_rows(Decoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, nullptr);
  return true;
}

void require(bool good, const Decoder& decoder) {
  if (good) return;
  throw core::Error(core::ErrorCode::corrupt, std::string("a damaged PNG image: ") + decoder.message);
}

}  // namespace

zoo::Image read_png(core::Bytes content) {
  Decoder decoder;
  decoder.content = content;
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, on_error, on_warning);
  if (decoder.png == nullptr) throw std::bad_alloc();
  decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) throw std::bad_alloc();
  require(read_header(decoder), decoder);
  zoo::Image image =
      zoo::make_image(png_get_image_width(decoder.png, decoder.info), png_get_image_height(decoder.png, decoder.info),
                      png_get_channels(decoder.png, decoder.info));
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < image.height; ++y) rows.push_back(image.row(y));
  require(read_rows(decoder, rows.data()), decoder);
  return image;
}

}  // namespace cli
