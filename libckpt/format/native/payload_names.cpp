#include "libckpt/format/native/payload_names.h"

#include "libckpt/format/native/value_codec.h"

namespace ckpt::detail {

PayloadNames::PayloadNames(const OpenedNative& file, const Limits& limits) {
  std::unordered_map<const Entry*, std::uint32_t> payload_of;
  EntryCompleter note = [&](const EntryRecord& record, Entry& entry) {
    if (record.window) payload_of.emplace(&entry, record.window->payload);
  };
  Value root = decode_tree(file.index.tree.bytes(), note, limits);
  for (const NamedEntry& named : list_entries(root)) {
    auto at = payload_of.find(named.entry.get());
    if (at != payload_of.end()) names_.emplace(at->second, named.name);
  }
}

std::string PayloadNames::name(std::uint32_t payload) const {
  auto at = names_.find(payload);
  return at == names_.end() ? "payload " + std::to_string(payload) : at->second;
}

}  // namespace ckpt::detail
