#include "libckpt/analyze/why/damage.h"

#include <algorithm>

#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {

void add_damage(Diagnosis& diagnosis, const Checkpoint& checkpoint, const Limits& limits) {
  std::vector<NamedEntry> entries = list_entries(checkpoint.root);
  std::uint64_t bytes = 0;
  for (const NamedEntry& named : entries) {
    bytes += std::min(named.entry->byte_size(), limits.max_checked - bytes);
  }
  if (bytes >= limits.max_checked) {
    diagnosis.notes.push_back(
        "the values were not read; 'ckpt verify' compares them with the checksums that the file has");
    return;
  }
  for (const NamedEntry& named : entries) {
    try {
      if (named.entry->bytes) for_each_part(*named.entry->bytes, [](Bytes) {});
    } catch (const core::Error& error) {
      if (error.code() == core::ErrorCode::io) throw;
      if (error.code() != core::ErrorCode::corrupt) continue;  // refused for its size: says nothing of damage
      Cause cause{CauseKind::corrupt, core::quote(named.name) + ": " + error.message()};
      cause.advice =
          "fetch or copy the file again; PyTorch does not compare checksums and would load the damaged values";
      diagnosis.causes.insert(diagnosis.causes.begin(), std::move(cause));
      diagnosis.alternatives.clear();
      return;
    }
  }
}

}  // namespace ckpt::detail
