#pragma once
// An HDF5 file whose datasets are virtual: each shows a whole tensor of a checkpoint in native parts, of which the
// pieces stay in the parts. For h5py and the like: HDF5 reads NaN or zeros where a part is missing and says nothing, so
// open() refuses such a file and names the folder. Thread safety: plain values. Use:
// write_virtual_file(plan_virtual_file("run/step-100", "whole.h5", {}), "whole.h5", {});

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "libckpt/format/hdf5_write/hdf5_tree.h"
#include "libckpt/options.h"

namespace ckpt {

/// Reading takes about a millisecond a piece, since HDF5 opens its file for each.
inline constexpr std::size_t kMaxVirtualParts = 256;

struct VirtualFile {
  std::string folder;              ///< as seen from where the file will lie
  std::vector<std::string> names;  ///< of the tensors, each a dataset
  std::vector<EntryPtr> entries;   ///< without bytes
  std::vector<std::vector<detail::VirtualPiece>> pieces;
  std::size_t parts = 0;
  std::size_t left_in_parts = 0;  ///< values that are no tensors
  bool needs_zstd = false;        ///< some of the parts are packed, for which h5py needs hdf5plugin
};

/// Reads the index and the structure of every part. Errors: Error(unsupported) for a checkpoint of another kind, more
/// than kMaxVirtualParts parts, and what HDF5 cannot read (the codec fast), with key and part; those of open().
VirtualFile plan_virtual_file(const std::filesystem::path& folder, const std::filesystem::path& target,
                              const OpenOptions& options);

/// Errors: those of AtomicFile and build_hdf5().
void write_virtual_file(const VirtualFile& file, const std::filesystem::path& target, const SaveOptions& options);

}  // namespace ckpt
