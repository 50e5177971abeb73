// Readers of PNG and JPEG files; expected pixels are Pillow's.

#include "zoo/data/image_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>  // jpeglib.h needs FILE
#include <cstdlib>
#include <vector>

#include <jpeglib.h>

#include "libcore/base/error.h"
#include "tests/cli/image_files.h"
#include "tests/support/picture.h"

namespace {

using test::picture;
using test::pixel_hash;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(std::string_view content) {
  try {
    return zoo::try_read_image(core::as_bytes(content)) ? "an image" : "no image";
  } catch (const core::Error& error) {
    return std::string(core::name(error.code())) + ": " + error.what();
  }
}

TEST(Png, GivesThePixels) {
  EXPECT_EQ(zoo::read_png(core::as_bytes(test::kRgbPng)).pixels, picture(9, 4, 3).pixels);
}

TEST(Png, DropsAlpha) {
  EXPECT_EQ(zoo::read_png(core::as_bytes(test::kRgbaPng)).pixels, picture(9, 4, 3).pixels);
}

TEST(Png, LooksColoursUpInThePalette) {
  EXPECT_EQ(pixel_hash(zoo::read_png(core::as_bytes(test::kPalettePng))), 0x2bb45fd59fcb7a23U);
}

TEST(Png, TakesTheUpperByteOf16Bits) {
  EXPECT_EQ(zoo::read_png(core::as_bytes(test::kGrey16Png)).pixels, picture(9, 4, 1).pixels);
}

TEST(Png, SaysWhereItIsCutOffOrDamaged) {
  EXPECT_EQ(error_of(test::kRgbPng.substr(0, 100)), "corrupt: a damaged PNG image: cut off");
  EXPECT_EQ(error_of(test::kRgbPng.substr(0, 20)), "corrupt: a damaged PNG image: cut off");
  std::string damaged(test::kRgbPng);
  damaged[60] = static_cast<char>(damaged[60] ^ 1);
  EXPECT_THAT(error_of(damaged), StartsWith("corrupt: a damaged PNG image: "));
}

TEST(Png, WithoutItsEndIsReadAsPillowDoesWhereThatIsAsked) {
  const std::string_view without_end = test::kRgbPng.substr(0, test::kRgbPng.size() - 12);
  const auto read = [&](zoo::ImageReading how) { return zoo::read_png(core::as_bytes(without_end), how).pixels; };
  EXPECT_EQ(read(zoo::ImageReading::pillow), picture(9, 4, 3).pixels);
  EXPECT_EQ(error_of(without_end), "corrupt: a damaged PNG image: cut off");
  std::string damaged(without_end);
  damaged.back() = static_cast<char>(damaged.back() ^ 1);  // the checksum of the pixels
  EXPECT_THROW(zoo::read_png(core::as_bytes(damaged), zoo::ImageReading::pillow), core::Error);
}

TEST(Jpeg, GivesThePixels) {
  EXPECT_EQ(pixel_hash(zoo::read_jpeg(core::as_bytes(test::kRgbJpeg))), 0x315ddd22b3ddba0dU);
}

TEST(Jpeg, KeepsGreyGrey) {
  const zoo::Image image = zoo::read_jpeg(core::as_bytes(test::kGreyJpeg));
  EXPECT_EQ(image.channels, 1);
  EXPECT_EQ(pixel_hash(image), 0xf0cb66c7914abd51U);
}

TEST(Jpeg, SaysThatItIsCutOffInsteadOfMakingPixelsUp) {
  EXPECT_THAT(error_of(test::kRgbJpeg.substr(0, 400)), StartsWith("corrupt: a damaged JPEG image: Premature end of"));
  EXPECT_THAT(error_of(test::kRgbJpeg.substr(0, 30)), StartsWith("corrupt: a damaged JPEG image: "));
}

/// A grey image of one colour whose 63 coefficients come in `passes` scans each.
std::string jpeg_of_many_scans(int passes) {
  std::vector<jpeg_scan_info> scans = {{1, {0}, 0, 0, 0, 0}};
  for (int k = 1; k < 64; ++k) {
    scans.push_back({1, {0}, k, k, 0, passes - 1});
    for (int bit = passes - 1; bit > 0; --bit) scans.push_back({1, {0}, k, k, bit, bit - 1});
  }
  jpeg_compress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_width = jpeg.image_height = 64;
  jpeg.input_components = 1;
  jpeg.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&jpeg);
  jpeg.scan_info = scans.data();
  jpeg.num_scans = static_cast<int>(scans.size());
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<unsigned char> pixels(64, 128);
  JSAMPROW row = pixels.data();
  while (jpeg.next_scanline < jpeg.image_height) jpeg_write_scanlines(&jpeg, &row, 1);
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string content(reinterpret_cast<const char*>(memory), size);
  std::free(memory);
  return content;
}

TEST(Jpeg, AnImageOfThousandsOfScansIsNotRefinedForEver) {
  EXPECT_EQ(error_of(jpeg_of_many_scans(1)), "an image");  // 64 scans
  EXPECT_EQ(error_of(jpeg_of_many_scans(3)), "corrupt: a damaged JPEG image: it has more than 100 scans");
}

TEST(Jpeg, ColoursOfPrintersBecomeOrdinaryOnes) {
  const zoo::Image image = zoo::read_jpeg(core::as_bytes(test::kCmykJpeg));
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(pixel_hash(image), 0x6aef1c0ff2cadf8cU);
}

TEST(Image, IsToldByItsContent) {
  using namespace std::string_view_literals;
  EXPECT_EQ(error_of(test::ppm_text(picture(9, 4, 3))), "an image");
  EXPECT_EQ(error_of("GIF89a..."), "unsupported: a GIF image is not read; PNG, JPEG, PPM and PGM are");
  EXPECT_EQ(error_of("RIFF\x10\0\0\0WEBPVP8 "sv), "unsupported: a WebP image is not read; PNG, JPEG, PPM and PGM are");
  EXPECT_EQ(error_of("PK\x03\x04"), "no image");
  EXPECT_EQ(error_of("P6x"), "no image");
  EXPECT_EQ(error_of(""), "no image");
}

}  // namespace
