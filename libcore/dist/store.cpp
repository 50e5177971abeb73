#include "libcore/dist/store.h"

namespace core::distributed {

namespace detail {
void throw_wait_timeout(const std::vector<std::string>& keys, Milliseconds timeout) {
  std::string text = "wait timeout after " + std::to_string(timeout.count()) + "ms, keys: ";
  for (std::size_t i = 0; i < keys.size(); ++i) text += (i == 0 ? "/" : ", /") + keys[i];
  throw Error(ErrorCode::io, text);
}
}  // namespace detail

void HashStore::set(const std::string& key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  table_.set(key, std::string(value));
  changed_.notify_all();
}

std::string HashStore::get(const std::string& key) {
  std::unique_lock lock(mutex_);
  const Milliseconds limit = timeout();
  if (!changed_.wait_for(lock, limit, [&] { return table_.contains(key); })) detail::throw_wait_timeout({key}, limit);
  return *table_.find(key);
}

std::int64_t HashStore::add(const std::string& key, std::int64_t amount) {
  const std::lock_guard lock(mutex_);
  const std::optional<std::int64_t> sum = table_.add(key, amount);
  if (!sum) throw Error(ErrorCode::value, "add: the key '" + key + "' holds no number that can be added to");
  changed_.notify_all();
  return *sum;
}

std::string HashStore::compare_set(const std::string& key, std::string_view expected, std::string_view desired) {
  const std::lock_guard lock(mutex_);
  std::string value = table_.compare_set(key, expected, desired);
  changed_.notify_all();
  return value;
}

bool HashStore::check(const std::vector<std::string>& keys) {
  const std::lock_guard lock(mutex_);
  return table_.contains_all(keys);
}

void HashStore::wait(const std::vector<std::string>& keys, Milliseconds limit) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, limit, [&] { return table_.contains_all(keys); }))
    detail::throw_wait_timeout(keys, limit);
}

bool HashStore::delete_key(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return table_.erase(key);
}

std::int64_t HashStore::num_keys() {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(table_.size());
}

void HashStore::append(const std::string& key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  table_.append(key, value);
  changed_.notify_all();
}

std::vector<std::string> PrefixStore::with_prefix(const std::vector<std::string>& keys) const {
  std::vector<std::string> full;
  for (const std::string& key : keys) full.push_back(prefix_ + key);
  return full;
}

}  // namespace core::distributed
