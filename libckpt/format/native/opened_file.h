#pragma once
// A native file whose header and index have been read and checked, before anything is built from it. Shared by reading
// and verifying. Thread safety: plain value. Use: std::shared_ptr<const OpenedNative> file = open_native(input,
// limits);

#include <memory>

#include "libckpt/format/format.h"
#include "libckpt/format/native/layout.h"

namespace ckpt::detail {

struct OpenedNative {
  NativeHeader header;
  NativeIndex index;
  SourcePtr body;  ///< the file behind the user block
};

/// Reads the user block. Errors: Error(corrupt) when it is damaged, or the file is cut or has grown.
std::shared_ptr<const OpenedNative> open_native(const Input& input, const Limits& limits);

/// The same for a file whose HDF5 part another program may have changed: of any size, whatever its stamps say.
std::shared_ptr<const OpenedNative> open_edited_native(const Input& input, const Limits& limits);

/// The first stamped range whose bytes are no longer those that the index was written for, or null. Cost: reads all
/// ranges, about half a kilobyte a tensor.
const StampedRange* find_stale_range(const OpenedNative& file);

/// "bytes 4096 to 5120 behind the user block".
std::string describe(const StampedRange& range);

}  // namespace ckpt::detail
