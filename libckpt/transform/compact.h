#pragma once
// compact: the same values in fewer bytes. Views that were saved with a large storage around them get a storage of
// their own size; on demand equal tensors share their bytes. What a file holds besides (superseded records, dead bytes,
// storages that nothing refers to) goes by itself when the result is saved, since savers write only what the tree
// refers to. Thread safety: pure. Use: ckpt::save(ckpt::compact(ckpt::open("views.pth")), "small.pth");

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/report.h"

namespace ckpt {

struct CompactOptions {
  bool trim_views = true;
  /// Tensors of equal dtype, shape, location and bytes share one storage, as tied weights do. Reads all of them.
  bool dedupe = false;
  /// Every tensor gets bytes of its own: tied names, too, are written in full. Goes without dedupe.
  bool untie = false;
  Progress progress = {};  ///< bytes read while looking for equal tensors
};

struct CompactChanges {
  std::uint64_t tensors = 0;
  std::uint64_t views_trimmed = 0;  ///< tensors whose storage became smaller
  std::uint64_t view_bytes = 0;     ///< storage bytes that are no longer written
  std::uint64_t duplicates = 0;     ///< tensors that now share another's bytes
  std::uint64_t duplicate_bytes = 0;
  std::vector<std::pair<std::string, std::string>> shared;  ///< duplicate, the name whose bytes it shares
  std::uint64_t untied = 0;                                 ///< tensors that shared memory and no longer do
  std::uint64_t untied_bytes = 0;                           ///< bytes that are written in addition
};

/// Views of one storage that share elements keep sharing it; those that do not are parted where that saves more than
/// the storages cost. Strides stay, except of a lone view with gaps, which becomes contiguous. Errors: Error(usage) for
/// dedupe with untie; those of reading.
Checkpoint compact(const Checkpoint& checkpoint, const CompactOptions& options = {}, CompactChanges* changes = nullptr);

}  // namespace ckpt
