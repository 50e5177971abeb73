#include "libckpt/value_path.h"

#include <algorithm>
#include <string>

#include "libckpt/checkpoint.h"

namespace ckpt::detail {
namespace {

/// The place of the child that `step` names.
std::optional<std::size_t> index_of(const Value& value, std::string_view step) {
  if (value.is(Value::Kind::dict)) {
    const auto& items = value.as_dict().items;
    auto found =
        std::find_if(items.begin(), items.end(), [&](const auto& item) { return step_text(item.first) == step; });
    if (found != items.end()) return static_cast<std::size_t>(found - items.begin());
  }
  if (value.is_sequence()) {
    for (std::size_t i = 0; i < value.as_list().size(); ++i) {
      if (std::to_string(i) == step) return i;
    }
  }
  return std::nullopt;
}

/// Tries the longest step first, because keys may contain dots.
bool walk(const Value& value, std::string_view path, std::vector<PathStep>& way) {
  for (std::size_t length = path.size();; length = path.rfind('.', length - 1)) {
    if (length == std::string_view::npos) return false;
    if (std::optional<std::size_t> index = index_of(value, path.substr(0, length))) {
      way.push_back({&value, *index});
      if (length == path.size() || walk(way.back().child(), path.substr(length + 1), way)) return true;
      way.pop_back();
    }
    if (length == 0) return false;
  }
}

}  // namespace

const Value& PathStep::child() const {
  return parent->is(Value::Kind::dict) ? parent->as_dict().items[index].second : parent->as_list()[index];
}

std::optional<std::vector<PathStep>> find_path(const Value& root, std::string_view path) {
  std::vector<PathStep> way;
  if (path.empty() || walk(root, path, way)) return way;
  return std::nullopt;
}

}  // namespace ckpt::detail
