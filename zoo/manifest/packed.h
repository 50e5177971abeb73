#pragma once
// The packed key lists as the build put them into the program: one zstd frame of text.
// Thread safety: a constant. Use: ckpt::zstd_decompress(packed_manifests(), size).

#include "libcore/base/bytes.h"

namespace zoo {

core::Bytes packed_manifests();

}  // namespace zoo
