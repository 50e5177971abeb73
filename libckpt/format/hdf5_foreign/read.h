#pragma once
// From the structure of an HDF5 file to a Checkpoint. Shared by plain files and ".keras" archives.
// Thread safety: plain functions. Use: Checkpoint c = read_hdf5_tree(file, options);

#include <string>
#include <string_view>

#include "libckpt/checkpoint.h"
#include "libckpt/options.h"

namespace ckpt::detail {

/// How the warning about bytes that readers of HDF5 do not look at ends: verification says it in other words.
inline constexpr std::string_view kTrailingUnread = " after the end of the HDF5 part were not read";

/// What a file had that the writer does not write, and where it says that it ends.
struct Hdf5Detail final : FormatDetail {
  bool keras_lists = false;  ///< layer_names and weight_names
  ChecksumCover checksums = ChecksumCover::absent;
  std::uint64_t end = 0;   ///< of the HDF5 part
  bool only_data = false;  ///< the root holds one group, "data", as in the HDF5 part of a native file
};

/// `file` is the HDF5 file and nothing else. Errors: those of walk_hdf5; Error(refused) naming everything that lies in
/// other files; Error(corrupt) when two datasets claim one name.
Checkpoint read_hdf5_tree(const SourcePtr& file, const OpenOptions& options);

/// Says in the report that there are bytes before the HDF5 data.
void warn_of_user_block(const SourcePtr& file, const OpenOptions& options);

/// Reads every tensor of `checkpoint` to its end; what cannot be read is damage.
void verify_tensors(const Checkpoint& checkpoint, const OpenOptions& options, const Progress& progress,
                    VerifyResult& result);

}  // namespace ckpt::detail
