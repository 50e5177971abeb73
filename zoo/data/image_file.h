#pragma once
// Images as users have them: PNG, JPEG, PPM and PGM, told apart by their content, as 8-bit grey or RGB. An alpha
// channel is dropped, palettes and CMYK become colours; gamma and orientation tags are left alone, as Pillow
// and torchvision leave them. Thread safety: pure functions.
// Use: if (auto image = zoo::try_read_image(content)) ...

#include <cstdint>
#include <optional>

#include "libcore/base/bytes.h"
#include "zoo/data/image.h"

namespace zoo {

/// What becomes of values of 16 bits, of JPEG files with a hole in their data, and of PNG files that are cut off
/// behind their pixels.
enum class ImageReading : std::uint8_t {
  careful,  ///< the upper byte; Error(corrupt) for both
  pillow,  ///< as Pillow's convert("RGB"): grey of 16 bits past 255 is 255; what the decoder makes up there; the pixels
};

/// nullopt when the content begins like no image. Errors: Error(unsupported) naming an image format that is not read
/// (GIF, WebP, ...); Error(corrupt) with what the decoder says for damaged or cut off ones; Error(refused) past
/// kMaxPixels.
std::optional<Image> try_read_image(core::Bytes content, ImageReading how = ImageReading::careful);

/// Source: libpng's row interface.
Image read_png(core::Bytes content, ImageReading how = ImageReading::careful);
/// Source: libjpeg's interface, its default (slow, exact) transform; CMYK as Pillow turns it into RGB.
Image read_jpeg(core::Bytes content, ImageReading how = ImageReading::careful);

}  // namespace zoo
