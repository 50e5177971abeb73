#include "libckpt/damage.h"

#include <algorithm>
#include <span>

#include "libckpt/io/checked_source.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

constexpr std::size_t kMaxDamageListed = 5;

bool is_damaged_tensor(const NamedEntry& named) {
  return named.entry->bytes != nullptr && is_damaged(*named.entry->bytes);
}

}  // namespace

std::string first_damaged(const std::vector<NamedEntry>& entries) {
  auto at = std::find_if(entries.begin(), entries.end(), is_damaged_tensor);
  return at == entries.end() ? "" : at->name;
}

std::string damage_warning(const std::vector<NamedEntry>& entries) {
  std::vector<std::string> names;
  for (const NamedEntry& named : entries) {
    if (is_damaged_tensor(named)) names.push_back(core::quote(named.name));
  }
  if (names.empty()) return "";
  if (names.size() == 1) {
    return names[0] + " is damaged: its bytes do not have their recorded checksum; they were used as they are";
  }
  std::string list = core::join(std::span(names).first(std::min(names.size(), kMaxDamageListed)), ", ");
  if (names.size() > kMaxDamageListed) list += " and " + core::format_count(names.size() - kMaxDamageListed) + " more";
  return core::format_count(names.size()) +
         " tensors are damaged: their bytes do not have their recorded checksums; they were used as they are: " + list;
}

bool add_file_at_fault(core::Error& error, const Checkpoint& checkpoint, const std::vector<NamedEntry>& entries) {
  if (error.code() != core::ErrorCode::corrupt || checkpoint.path.empty()) return false;
  if (first_damaged(entries).empty()) return false;
  error.add_context(checkpoint.path.string());
  return true;
}

}  // namespace ckpt
