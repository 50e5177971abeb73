#pragma once
// Reads the PGM and PPM images of Netpbm: P2, P3 (numbers as text), P5, P6 (bytes), values up to 65535.
// Thread safety: pure. Use: zoo::Image image = zoo::parse_ppm(content);

#include <cstdint>

#include "libcore/base/bytes.h"
#include "zoo/data/image.h"

namespace zoo {

/// What becomes of grey values where a file has more than 8 bits for them: the same share of 255, or, as Pillow's
/// convert("RGB"), 255 for all past it once they are brought to 16 bits.
enum class WideGrey : std::uint8_t { scaled, clipped };

/// Values become 8 bits: value * 255 / largest value, rounded. Bytes behind the image are left alone.
/// Source: the pages ppm(5) and pgm(5) of Netpbm. Errors: Error(corrupt) for a header that is none, a value above the
/// largest, an image that is cut off; those of make_image(); Error(unsupported) for P1, P4 and P7.
Image parse_ppm(core::Bytes content, WideGrey wide = WideGrey::scaled);

}  // namespace zoo
