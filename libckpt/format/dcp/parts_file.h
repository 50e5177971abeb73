#pragma once
// `.ckpt-parts`: what of a distributed checkpoint PyTorch does not record: size and 128-bit hash of every data file,
// and the save they belong to. torch.distributed.checkpoint ignores it. It counts only beside a `.metadata` of the same
// save, and every data file begins with the number of its save, so that parts of two saves are never taken for one
// checkpoint. Thread safety: plain values. Use: PartsFile parts = read_parts_file(*file, options); const PartFacts*
// part = parts.find("__0_0.distcp");

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/checksum.h"
#include "libckpt/options.h"

namespace ckpt {
class JsonView;
class JsonWriter;
}  // namespace ckpt

namespace ckpt::detail {

inline constexpr std::string_view kDcpMetadata = ".metadata";
inline constexpr std::string_view kPartsFile = ".ckpt-parts";
inline constexpr std::string_view kEditedPart = "__edit_";  ///< begins a data file with what edits have changed
inline constexpr std::uint64_t kPartHead = 64;              ///< bytes at the begin of a data file of ours

struct PartFacts {
  std::string file;
  std::uint64_t size = 0;
  Hash128 hash;
};

struct PartsFile {
  std::string save_id;  ///< of StorageMeta in `.metadata`
  std::uint64_t ranks = 0;
  std::vector<PartFacts> parts;
  std::uint64_t replicated_pieces = 0;  ///< that several ranks had alike, and one has written
  std::uint64_t bytes_saved = 0;        ///< that these need not be written again

  const PartFacts* find(std::string_view file) const;
};

/// The list "parts" of an index of ours, in the object that is open. Errors of reading it: Error(corrupt) for what is
/// no such list, or names a file twice. Where the files lie is for the caller to check.
void write_parts(JsonWriter& json, const std::vector<PartFacts>& parts);
std::vector<PartFacts> read_parts(const JsonView& index);

core::ByteVector encode_parts_file(const PartsFile& parts);
/// Errors: Error(corrupt | refused) for what is no such file, or names a file outside of the folder.
PartsFile read_parts_file(const ByteSource& file, const OpenOptions& options);

/// "__3_0.distcp", of rank 3.
std::string part_name(std::uint64_t rank);
/// The text form of a hash that tells one save from another.
std::string save_id_of(const Hash128& hash);
/// The first kPartHead bytes of a data file.
core::ByteVector part_head(const std::string& save_id);
/// The save that such a file says it belongs to; "" for a file that PyTorch wrote.
std::string save_id_in(const ByteSource& part);
/// Whether a folder of a checkpoint may hold a file of this name.
bool is_dcp_file(std::string_view name);

}  // namespace ckpt::detail
