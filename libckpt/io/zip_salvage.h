#pragma once
// Finds the records of a zip archive whose directory is cut off or damaged, by their own headers.
// Thread safety: pure. Use: for (const FoundRecord& r : find_zip_records(*file, {})) ...

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/io/zip.h"

namespace ckpt {

struct FoundRecord {
  std::string name;
  std::uint16_t method = kZipStored;
  std::uint64_t payload_offset = 0;
  // What stands in the header, or in the descriptor behind the payload; none when that is cut off or damaged.
  std::optional<std::uint32_t> crc32;
  std::uint64_t stored_size = 0;
  std::uint64_t size = 0;

  bool complete() const { return crc32.has_value(); }
};

/// In file order; of records of one name the last, which is the one that counts. A payload that is itself an archive
/// is passed over when its record is complete. Errors: Error(refused) for more records than allowed. Cost: reads the
/// file once where sizes stand behind the payloads, as in PyTorch's files.
std::vector<FoundRecord> find_zip_records(const ByteSource& file, const ZipReadOptions& options);

}  // namespace ckpt
