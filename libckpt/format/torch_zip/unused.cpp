#include <unordered_set>

#include "libckpt/format/torch_zip/torch_zip.h"
#include "libckpt/io/zip.h"

namespace ckpt::detail {

/// Storages are the records data/0, data/1, ...
std::uint64_t torch_zip_unused(const Checkpoint& checkpoint) {
  std::uint64_t unused = 0;
  std::uint64_t stored = 0;
  ZipArchive archive = ZipArchive::open(open_file(checkpoint.path), {.accept_trailing = true});
  for (const ZipDeadRange& range : archive.dead_ranges()) unused += range.length;
  for (const ZipMember& member : archive.members()) {
    std::size_t root = member.name.find('/');
    if (root != std::string::npos && member.name.compare(root, 6, "/data/") == 0) stored += member.size;
  }
  std::uint64_t used = 0;
  std::unordered_set<const Storage*> seen;
  for (const NamedEntry& tensor : list_entries(checkpoint.root)) {
    if (!tensor.entry->bytes) continue;
    if (!tensor.entry->view) return unused;  // its bytes cannot be told from those that nobody uses
    const Storage* storage = tensor.entry->view->storage.get();
    if (seen.insert(storage).second && storage->bytes) used += storage->bytes->size();
  }
  return unused + (stored > used ? stored - used : 0);
}

}  // namespace ckpt::detail
