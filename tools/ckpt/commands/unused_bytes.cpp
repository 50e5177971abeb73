#include "tools/ckpt/commands/unused_bytes.h"

#include <unordered_set>

#include "libckpt/format/unused_space.h"
#include "libckpt/io/zip.h"
#include "libckpt/transform/compact.h"
#include "libcore/base/error.h"

namespace cli {
namespace {

std::uint64_t view_bytes(const ckpt::Checkpoint& checkpoint) {
  ckpt::CompactChanges changes;
  ckpt::compact(checkpoint, {}, &changes);
  return changes.view_bytes;
}

/// Storages of a PyTorch archive are its records data/0, data/1, ...
std::uint64_t record_bytes(const ckpt::Checkpoint& checkpoint) {
  if (checkpoint.format != "torch-zip") return 0;
  std::uint64_t unused = 0;
  std::uint64_t stored = 0;
  ckpt::ZipArchive archive = ckpt::ZipArchive::open(ckpt::open_file(checkpoint.path), {.accept_trailing = true});
  for (const ckpt::ZipDeadRange& range : archive.dead_ranges()) unused += range.length;
  for (const ckpt::ZipMember& member : archive.members()) {
    std::size_t root = member.name.find('/');
    if (root != std::string::npos && member.name.compare(root, 6, "/data/") == 0) stored += member.size;
  }
  std::uint64_t used = 0;
  std::unordered_set<const ckpt::Storage*> seen;
  for (const ckpt::NamedEntry& tensor : ckpt::list_entries(checkpoint.root)) {
    if (!tensor.entry->bytes) continue;
    if (!tensor.entry->view) return unused;  // its bytes cannot be told from those that nobody uses
    const ckpt::Storage* storage = tensor.entry->view->storage.get();
    if (seen.insert(storage).second && storage->bytes) used += storage->bytes->size();
  }
  return unused + (stored > used ? stored - used : 0);
}

}  // namespace

std::uint64_t unused_bytes(const ckpt::Checkpoint& checkpoint) {
  try {
    return view_bytes(checkpoint) + record_bytes(checkpoint) + ckpt::unused_space(checkpoint);
  } catch (const core::Error& error) {
    // What cannot be written afresh cannot be made smaller either.
    if (error.code() == core::ErrorCode::io || error.code() == core::ErrorCode::internal) throw;
    return 0;
  }
}

}  // namespace cli
