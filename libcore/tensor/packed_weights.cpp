#include "libcore/tensor/packed_weights.h"

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
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
  std::unordered_set<const StorageImpl*> lent;
  std::atomic<std::size_t> lent_count{0};  // read without the mutex: programs that lend nothing wait for nobody
  std::atomic<std::uint64_t> forgotten{0};
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

blocked::Bytes made(std::int64_t count, const std::function<void(float*)>& make) {
  blocked::Bytes bytes = blocked::make_bytes(count);
  make(bytes->data());
  bytes->finite = blocked::all_finite(bytes->data(), count);
  return bytes;
}

}  // namespace

blocked::Bytes find_or_pack(const Tensor& source, std::string_view key, std::int64_t count,
                            const std::function<void(float*)>& make) {
  StorageImpl* storage = source.storage().id();
  if (!may_keep(storage)) return made(count, make);
  const std::uint32_t writes = storage->writes();
  Registry& all = registry();
  {
    const std::lock_guard lock(all.mutex);
    storage->mark_packed();
    Entry& entry = entry_of(all.entries[storage], key, source.storage_offset());
    if (entry.bytes && entry.writes == writes) return entry.bytes;
    entry.bytes = {};
  }
  blocked::Bytes bytes = made(count, make);
  const std::lock_guard lock(all.mutex);
  Entry& entry = entry_of(all.entries[storage], key, source.storage_offset());
  entry.writes = writes;
  entry.bytes = bytes;
  return bytes;
}

void never_keep(const Storage& lent) {
  lent->mark_packed();  // so that it is forgotten with its storage
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.lent.insert(lent.id()).second) all.lent_count.fetch_add(1, std::memory_order_relaxed);
}

bool may_keep(const StorageImpl* storage) {
  Registry& all = registry();
  if (all.lent_count.load(std::memory_order_relaxed) == 0) return true;
  const std::lock_guard lock(all.mutex);
  return !all.lent.contains(storage);
}

std::uint64_t forgotten() {
  return registry().forgotten.load(std::memory_order_acquire);
}

void forget(const StorageImpl* storage) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.entries.erase(storage) != 0) all.forgotten.fetch_add(1, std::memory_order_release);
  if (all.lent.erase(storage) != 0) all.lent_count.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace core::packed_weights
