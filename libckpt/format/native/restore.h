#pragma once
// Gives back a damaged native file: blocks from its parity data, a header from what stands behind it.
// Thread safety: one call at a time on a file. Use: RestoredNative restored = restore_native(input, options);

#include <optional>

#include "libckpt/format/format.h"
#include "libckpt/rescue.h"

namespace ckpt::detail {

struct RestoredNative {
  Input input;         ///< the file as it should be, as far as that is known
  bool whole = false;  ///< every byte of it is proved by a hash
  /// What looks as if another program had changed it on purpose: tensors that were replaced as a whole and nothing
  /// around them, names that HDF5 shows otherwise. Giving back what was there before would undo that.
  std::vector<std::string> edited = {};
};

/// True for a file with our header, or with what is left of it, or with our parity data.
bool is_native_remains(const Input& input);

/// Fills in what `report` says of blocks and restored parts. `scratch` is a folder with room for what is restored.
/// Errors: Error(corrupt) when another program edited the file after its parity data was written.
RestoredNative restore_native(const Input& input, const RescueOptions& options, const std::filesystem::path& scratch,
                              RescueReport& report);

/// The tree of such a file; damaged payloads throw when they are read. The HDF5 part may be stale. Errors: those of
/// reading the user block.
Checkpoint read_remains(const Input& input, const RescueOptions& options);

}  // namespace ckpt::detail
