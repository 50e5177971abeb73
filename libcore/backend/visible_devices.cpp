#include "libcore/backend/visible_devices.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "libcore/base/text.h"

namespace core::detail {
namespace {

constexpr int kNone = -1;

int by_uuid(std::string_view prefix, const std::vector<std::string>& uuids) {
  int found = kNone;
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    if (!uuids[i].starts_with(prefix)) continue;
    if (found != kNone) return kNone;  // stands for several
    found = static_cast<int>(i);
  }
  return found;
}

int named_device(std::string_view entry, const std::vector<std::string>& uuids) {
  while (!entry.empty() && (entry.front() == ' ' || entry.front() == '\t')) entry.remove_prefix(1);
  if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) return by_uuid(entry, uuids);
  if (entry.starts_with("+")) entry.remove_prefix(1);
  int index = kNone;
  auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  bool exists = error == std::errc() && index >= 0 && index < static_cast<int>(uuids.size());
  return exists ? index : kNone;
}

}  // namespace

std::vector<int> visible_ordinals(std::string_view text, const std::vector<std::string>& uuids) {
  std::vector<int> visible;
  for (std::string_view entry : split(text, ',')) {
    int index = named_device(entry, uuids);
    if (index == kNone) break;
    if (std::find(visible.begin(), visible.end(), index) != visible.end()) return {};
    visible.push_back(index);
  }
  return visible;
}

std::string logical_uuid(int ordinal) {
  char text[48];
  std::snprintf(text, sizeof text, "GPU-00000000-0000-0000-0000-%012d", ordinal);
  return text;
}

}  // namespace core::detail
