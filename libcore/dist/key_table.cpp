#include "libcore/dist/key_table.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace core::distributed {
namespace {

std::optional<std::int64_t> number_in(const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

void KeyTable::set(const std::string& key, std::string value) {
  const auto [place, is_new] = values_.try_emplace(key);
  if (is_new) bytes_ += key.size() + kNodeBytes;
  bytes_ += value.size() - place->second.size();
  place->second = std::move(value);
}

const std::string* KeyTable::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

bool KeyTable::contains_all(const std::vector<std::string>& keys) const {
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) { return contains(key); });
}

std::optional<std::int64_t> KeyTable::add(const std::string& key, std::int64_t amount) {
  const std::string* held = find(key);
  const std::optional<std::int64_t> before = held == nullptr ? std::int64_t{0} : number_in(*held);
  std::int64_t sum = 0;
  if (!before || __builtin_add_overflow(*before, amount, &sum)) return std::nullopt;
  set(key, std::to_string(sum));
  return sum;
}

std::string KeyTable::compare_set(const std::string& key, std::string_view expected, std::string_view desired) {
  const std::string* held = find(key);
  if (held == nullptr && !expected.empty()) return std::string(expected);
  if (held != nullptr && *held != expected) return *held;
  set(key, std::string(desired));
  return std::string(desired);
}

void KeyTable::append(const std::string& key, std::string_view value) {
  const std::string* held = find(key);
  set(key, held == nullptr ? std::string(value) : *held + std::string(value));
}

bool KeyTable::erase(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= found->first.size() + found->second.size() + kNodeBytes;
  values_.erase(found);
  return true;
}

}  // namespace core::distributed
