#include "libcore/module/sequential.h"

#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/module/print.h"
#include "libcore/module/walk.h"

namespace core {

std::vector<std::string> ModuleEntries::keys() const {
  std::vector<std::string> result;
  for (const Entry& entry : entries_) result.push_back(entry.first);
  return result;
}

void ModuleEntries::add(std::string name, AnyModule module) {
  for (Entry& entry : entries_) {
    if (entry.first != name) continue;
    entry.second = module.get();
    return;
  }
  entries_.emplace_back(std::move(name), module.get());
}

void ModuleEntries::list(Members& m) {
  for (Entry& entry : entries_) m.child(entry.first, entry.second);
}

const ModuleEntries::Entry& ModuleEntries::at(std::int64_t index) const {
  return entries_[static_cast<std::size_t>(detail::checked_index(index, size()))];
}

void ModuleEntries::put(std::int64_t index, AnyModule module) {
  entries_[static_cast<std::size_t>(detail::checked_index(index, size()))].second = module.get();
}

void ModuleEntries::insert_at(std::int64_t index, AnyModule module) {
  if (index < -size() || index > size()) {
    throw Error(ErrorCode::index, "Index out of range: " + std::to_string(index));
  }
  const std::int64_t place = index < 0 ? index + size() : index;
  entries_.insert(entries_.begin() + place, {"", module.get()});
  renumber();
}

void ModuleEntries::erase_at(std::int64_t index) {
  entries_.erase(entries_.begin() + detail::checked_index(index, size()));
  renumber();
}

void ModuleEntries::renumber() {
  for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i].first = std::to_string(i);
}

const ModuleEntries::Entry* ModuleEntries::find(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.first == name; });
  return found == entries_.end() ? nullptr : &*found;
}

Sequential Sequential::slice(std::int64_t begin, std::int64_t end) const {
  const auto clamped = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + size() : i, 0, size()); };
  Sequential result;
  for (std::int64_t i = clamped(begin); i < clamped(end); ++i) result.add(at(i).first, at(i).second);
  return result;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor value = x;
  for (const Entry& entry : entries()) value = entry.second->call(value);
  return value;
}

std::int64_t detail::checked_index(std::int64_t index, std::int64_t size) {
  if (index < -size || index >= size) {
    throw Error(ErrorCode::index, "index " + std::to_string(index) + " is out of range");
  }
  return index < 0 ? index + size : index;
}

std::string detail::list_text(const Module& list) {
  std::vector<std::string> lines;
  const std::vector<ChildMember> all = Members(walkable(list)).children();
  for (std::size_t first = 0, last = 0; first < all.size(); first = last) {
    const std::string text = all[first].module->str();
    for (last = first + 1; last < all.size() && all[last].module->str() == text;) ++last;
    const std::size_t count = last - first;
    std::string line = "(" + std::to_string(first);
    if (count > 1) line += "-" + std::to_string(last - 1);
    line += count > 1 ? "): " + std::to_string(count) + " x " + text : "): " + text;
    lines.push_back(add_indent(line));
  }
  return framed(list.class_name(), lines);
}

std::string ModuleList::str() const {
  return detail::list_text(*this);
}

Module& ModuleDict::operator[](std::string_view name) const {
  const Entry* found = find(name);
  if (!found) throw Error(ErrorCode::key, std::string(name));
  return *found->second;
}

template class ModuleOf<Sequential>;
template class ModuleOf<ModuleList>;
template class ModuleOf<ModuleDict>;
template class ModuleOf<ParameterList>;
template class ModuleOf<ParameterDict>;

}  // namespace core
