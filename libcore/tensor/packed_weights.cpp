#include "libcore/tensor/packed_weights.h"

#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace core::packed_weights {
namespace {

struct Entry {
  std::string key;
  std::int64_t offset = 0;
  std::uint32_t writes = 0;  // of the storage, before `bytes` were made
  blocked::Bytes bytes = {};
};

constexpr std::size_t kMostKept = 4;  // of one storage: as many shapes of input may take turns

struct Registry {
  std::mutex mutex;
  std::unordered_map<const StorageImpl*, std::vector<Entry>> entries;
};

/// Never destroyed: tensors of static lifetime end after it would.
Registry& registry() {
  static auto* all = new Registry;
  return *all;
}

/// The entry of this key, new where there is none. REQUIRES: the registry is locked.
Entry& entry_of(std::vector<Entry>& entries, std::string_view key, std::int64_t offset) {
  for (Entry& entry : entries) {
    if (entry.key == key && entry.offset == offset) return entry;
  }
  if (entries.size() >= kMostKept) entries.erase(entries.begin());
  return entries.emplace_back(Entry{std::string(key), offset});
}

}  // namespace

blocked::Bytes find_or_pack(const Tensor& source, std::string_view key, std::int64_t count,
                            const std::function<void(float*)>& make) {
  StorageImpl* storage = source.storage().id();
  const std::uint32_t writes = storage->writes();
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    storage->mark_packed();
    Entry& entry = entry_of(all.entries[storage], key, source.storage_offset());
    if (entry.bytes && entry.writes == writes) return entry.bytes;
    entry.bytes = {};
  }
  blocked::Bytes bytes = blocked::make_bytes(count);
  make(bytes->data());
  bytes->finite = blocked::all_finite(bytes->data(), count);
  const std::lock_guard lock(all.mutex);
  Entry& entry = entry_of(all.entries[storage], key, source.storage_offset());
  entry.writes = writes;
  entry.bytes = bytes;
  return bytes;
}

void forget(const StorageImpl* storage) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.entries.erase(storage);
}

}  // namespace core::packed_weights
