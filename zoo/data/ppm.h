#pragma once
// Reads the PGM and PPM images of Netpbm: P2, P3 (numbers as text), P5, P6 (bytes), values up to 65535.
// Thread safety: pure. Use: zoo::Image image = zoo::parse_ppm(content);

#include "libcore/base/bytes.h"
#include "zoo/data/image.h"

namespace zoo {

/// Values become 8 bits: value * 255 / largest value, rounded. Bytes behind the image are left alone.
/// Source: the pages ppm(5) and pgm(5) of Netpbm. Errors: Error(corrupt) for a header that is none, a value above the
/// largest, an image that is cut off; those of make_image(); Error(unsupported) for P1, P4 and P7.
Image parse_ppm(core::Bytes content);

}  // namespace zoo
