#pragma once
// The table behind every store, with the rules that PyTorch's stores have for each operation.
// Thread safety: none; stores guard it. Use: core::distributed::KeyTable table; table.add("count", 1) == 1;

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace core::distributed {

class KeyTable {
 public:
  /// About what a key takes beside its text and its value.
  static constexpr std::size_t kNodeBytes = 96;

  void set(const std::string& key, std::string value);
  /// Null when there is no such key. Valid until the table changes.
  const std::string* find(const std::string& key) const;
  bool contains(const std::string& key) const { return values_.contains(key); }
  bool contains_all(const std::vector<std::string>& keys) const;
  /// None when the key holds no number, or the sum is none.
  std::optional<std::int64_t> add(const std::string& key, std::int64_t amount);
  std::string compare_set(const std::string& key, std::string_view expected, std::string_view desired);
  void append(const std::string& key, std::string_view value);
  bool erase(const std::string& key);
  std::size_t size() const { return values_.size(); }
  /// Of all keys and values, and of what holding them costs.
  std::size_t bytes() const { return bytes_; }

 private:
  std::unordered_map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
};

}  // namespace core::distributed
