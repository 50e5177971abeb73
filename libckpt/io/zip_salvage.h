#pragma once
// Finds the records of a zip archive whose directory is cut off or damaged, by their own headers.
// Thread safety: pure. Use: for (const FoundRecord& r : find_zip_records(*file, {})) ...

#include <cstdint>
#include <functional>
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

/// What is known beforehand of the size of a stored record whose header leaves it open, from the records before it;
/// nullopt for nothing.
using SizeGuess =
    std::function<std::optional<std::uint64_t>(const std::string& name, const std::vector<FoundRecord>& found)>;

/// In file order; of records of one name the last, which is the one that counts. A payload that is itself an archive
/// is passed over when its record is complete. Errors: Error(refused) for more records than allowed. Errors of
/// `guess` are passed on. Cost: reads the file once where sizes stand behind the payloads, as in PyTorch's files, and
/// nobody knows them.
std::vector<FoundRecord> find_zip_records(const ByteSource& file, const ZipReadOptions& options,
                                          const SizeGuess& guess = {});

/// The bytes of a complete record, compared with its CRC-32 before the first of them is handed out.
/// REQUIRES: record.complete().
SourcePtr record_bytes(const SourcePtr& file, const FoundRecord& record);

/// True when the records that end an archive are there, whatever they say.
bool has_zip_end(const ByteSource& file);

}  // namespace ckpt
