#pragma once
// Images as users have them: PNG, JPEG, PPM and PGM, told apart by their content, as 8-bit grey or RGB. An alpha
// channel is dropped, 16 bits become 8, palettes become colours; gamma and orientation tags are left alone, as Pillow
// and torchvision leave them. Thread safety: pure functions.
// Use: if (auto image = cli::try_read_image(content)) ...

#include <optional>

#include "libcore/base/bytes.h"
#include "zoo/data/image.h"

namespace cli {

/// nullopt when the content begins like no image. Errors: Error(unsupported) naming an image format that is not read
/// (GIF, WebP, ...); Error(corrupt) with what the decoder says for damaged or cut off ones; Error(refused) past
/// zoo::kMaxPixels.
std::optional<zoo::Image> try_read_image(core::Bytes content);

/// Source: libpng's row interface.
zoo::Image read_png(core::Bytes content);
/// Source: libjpeg's interface, its default (slow, exact) transform. CMYK is Error(unsupported).
zoo::Image read_jpeg(core::Bytes content);

}  // namespace cli
