#include "libckpt/format/verify_reading.h"

#include "libckpt/checkpoint.h"
#include "libckpt/io/checksum.h"

namespace ckpt::detail {

VerifyResult verify_by_reading(const Value& root, const Progress& progress) {
  VerifyResult result;
  result.method = "structure, and that every byte can be read";
  std::vector<NamedEntry> entries = list_entries(root);
  std::uint64_t total = 0;
  for (const NamedEntry& named : entries) total += named.entry->byte_size();
  for (const NamedEntry& named : entries) {
    if (!named.entry->bytes) continue;
    for_each_part(*named.entry->bytes, [&](Bytes part) {
      result.bytes_checked += part.size();
      if (progress) progress(result.bytes_checked, total);
    });
    ++result.tensors_checked;
  }
  return result;
}

}  // namespace ckpt::detail
