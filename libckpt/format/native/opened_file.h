#pragma once
// A native file whose header and index have been read and checked, before anything is built from it. Shared by reading
// and verifying. Thread safety: plain value. Use: std::shared_ptr<const OpenedNative> file = open_native(input,
// limits);

#include <memory>
#include <optional>

#include "libckpt/format/format.h"
#include "libckpt/format/native/layout.h"
#include "libckpt/hint.h"

namespace ckpt::detail {

struct TableRows;
struct TensorRow;

struct OpenedNative {
  NativeHeader header;
  NativeIndex index;
  SourcePtr body;                ///< the file behind the user block
  std::filesystem::path folder;  ///< that it lies in, where files that hold payloads of it lie as well
  bool parity_cut = false;       ///< the end of the parity data is missing, and nothing else
};

/// What is remembered of a native file.
struct NativeDetail final : FormatDetail {
  double parity = 0;                         ///< share, 0 for none; the file is written with as much again
  SourcePtr whole;                           ///< null for a file that can only be written whole
  std::shared_ptr<const OpenedNative> file;  ///< null where `whole` is

  const ByteSource* file_read() const override { return whole.get(); }
};

/// The header and the index of a user block; the index is not parsed yet, but has its checksum.
struct CheckedIndex {
  NativeHeader header;
  SharedBytes index;
};

/// Errors: Error(corrupt) when it is damaged or the file is cut inside it.
CheckedIndex read_user_block(const Input& input, const Limits& limits);
/// The file of a user block. Errors: Error(corrupt) when it is cut or has grown.
std::shared_ptr<const OpenedNative> open_body(const Input& input, const NativeHeader& header, NativeIndex index);

/// Both. Errors: Error(corrupt) when the user block is damaged, or the file is cut or has grown.
std::shared_ptr<const OpenedNative> open_native(const Input& input, const Limits& limits);

/// Header and index alone; the rest of the file may be anything. Errors: Error(corrupt) when one of them is damaged.
std::shared_ptr<const OpenedNative> open_index(const Input& input, const Limits& limits);

/// Where the superblock says that the file ends: programs that edit a file and close it properly leave the two equal.
std::optional<std::uint64_t> end_by_superblock(const NativeHeader& header, const ByteSource& file);

/// The same for a file whose HDF5 part another program may have changed: of any size, whatever its stamps say.
std::shared_ptr<const OpenedNative> open_edited_native(const Input& input, const Limits& limits);

/// The first stamped range whose bytes are no longer those that the index was written for, or null. Cost: reads all
/// ranges, about 200 bytes a tensor.
const StampedRange* find_stale_range(const OpenedNative& file);

/// What reading refuses such a file with, and verifying reports.
std::string stale_text(const StampedRange& range);
Hint stale_hint();

/// The tree with lazy tensors (read.cpp), after every check that reading makes of the index. Errors: Error(corrupt |
/// refused) for an index that contradicts itself or breaks a limit.
Value build_tree(const std::shared_ptr<const OpenedNative>& file, const OpenOptions& options);

/// The tree without its tensors, which go into `row` (row.cpp); nullopt and an empty row where one of them is no
/// RowTensor, and where build_tree() would fail.
std::optional<Value> build_row(const SharedBytes& tree, const TableRows& tables, const Limits& limits, TensorRow& row);

}  // namespace ckpt::detail
