#include "libckpt/analyze/why/key_rule.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "libckpt/transform/prefix.h"

namespace ckpt::detail {
namespace {

using Function = std::function<std::string(const std::string&)>;

std::string replace_prefix(std::string_view key, const KeyRule& rule) {
  if (!key.starts_with(rule.from)) return std::string(key);
  return rule.to + std::string(key.substr(rule.from.size()));
}

/// For a module the final dot counts as being there: "module" becomes "".
std::string replace_module_prefix(const std::string& path, const KeyRule& rule) {
  std::string moved = replace_prefix(path.empty() ? "" : path + ".", rule);
  if (moved.ends_with('.')) moved.pop_back();
  return moved;
}

/// Components with dots between, empty ones too.
class Joined {
 public:
  explicit Joined(std::size_t size) { text_.reserve(size); }
  void add(std::string_view part) {
    if (any_) text_ += '.';
    text_ += part;
    any_ = true;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  bool any_ = false;
};

using Table = std::unordered_map<std::string, std::string>;

std::shared_ptr<const Table> make_table(const KeyRule& rule) {
  auto table = std::make_shared<Table>();
  for (const auto& [from, to] : rule.table) table->emplace(from, to);
  return table;
}

/// Where modules went: the parents of the keys of a table, when all keys of one agree.
std::shared_ptr<const Table> make_module_table(const KeyRule& rule) {
  auto parent = [](const std::string& key) {
    return key.rfind('.') == std::string::npos ? "" : key.substr(0, key.rfind('.'));
  };
  auto table = std::make_shared<Table>();
  for (const auto& [from, to] : rule.table) {
    auto [at, fresh] = table->emplace(parent(from), parent(to));
    if (!fresh && at->second != parent(to)) at->second = parent(from);
  }
  return table;
}

Function look_up(std::shared_ptr<const Table> table) {
  return [table = std::move(table)](const std::string& key) {
    auto found = table->find(key);
    return found == table->end() ? key : found->second;
  };
}

}  // namespace

std::string replace_components(std::string_view key, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(key);
  Joined out(key.size() + to.size());
  for (std::size_t at = 0; at <= key.size();) {
    std::size_t end = at + from.size();
    bool here = key.substr(at).starts_with(from) && (end == key.size() || key[end] == '.');
    if (!here) end = std::min(key.find('.', at), key.size());
    if (!here || !to.empty()) out.add(here ? to : key.substr(at, end - at));
    at = end + 1;
  }
  return out.take();
}

std::string without_wrappers(std::string_view key, bool last_too) {
  Joined out(key.size());
  for (std::size_t at = 0; at <= key.size();) {
    std::size_t end = std::min(key.find('.', at), key.size());
    std::string_view part = key.substr(at, end - at);
    bool last = end == key.size() && !last_too;
    if (last || !is_wrapper_component(part)) out.add(part);
    at = end + 1;
  }
  return out.take();
}

Function key_function(const KeyRule& rule) {
  switch (rule.kind) {
    case KeyRule::Kind::prefix:
      return [&rule](const std::string& key) { return replace_prefix(key, rule); };
    case KeyRule::Kind::path:
      return [&rule](const std::string& key) { return replace_components(key, rule.from, rule.to); };
    case KeyRule::Kind::wrappers:
      return [](const std::string& key) { return without_wrappers(key, false); };
    default:
      return look_up(make_table(rule));
  }
}

Function module_function(const KeyRule& rule) {
  switch (rule.kind) {
    case KeyRule::Kind::prefix:
      return [&rule](const std::string& path) { return replace_module_prefix(path, rule); };
    case KeyRule::Kind::path:
      return [&rule](const std::string& path) { return replace_components(path, rule.from, rule.to); };
    case KeyRule::Kind::wrappers:
      return [](const std::string& path) { return without_wrappers(path, true); };
    default:
      return look_up(make_module_table(rule));
  }
}

}  // namespace ckpt::detail
