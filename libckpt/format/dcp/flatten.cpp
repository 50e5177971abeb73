#include "libckpt/format/dcp/flatten.h"

#include <algorithm>
#include <unordered_set>

#include "libckpt/checkpoint.h"
#include "libckpt/entry.h"
#include "libckpt/format/torch/value_pickler.h"

namespace ckpt::detail {
namespace {

/// Whether a value is one item whatever is in it.
bool is_terminal(const Value& value) {
  if (value.is(Value::Kind::dict)) return false;
  if (!value.is(Value::Kind::list)) return true;
  return std::none_of(value.as_list().begin(), value.as_list().end(), [](const Value& item) {
    bool holds = item.is(Value::Kind::dict) || item.is(Value::Kind::list);
    return item.is(Value::Kind::tensor) || (holds && !is_terminal(item));
  });
}

std::string name_of(const std::vector<PathStep>& path) {
  std::string name;
  for (const PathStep& step : path) {
    if (!name.empty() || &step != path.data()) name += ".";
    const auto* text = std::get_if<std::string>(&step);
    name += text != nullptr ? *text : std::to_string(std::get<std::int64_t>(step));
  }
  return name;
}

class Flattening {
 public:
  FlatTree run(const Value& root) {
    if (!root.is(Value::Kind::dict)) {
      tree_.obstacles.push_back(top_obstacle(root, "a dict"));
      return std::move(tree_);
    }
    visit_dict(root.as_dict());
    return std::move(tree_);
  }

 private:
  void visit_dict(const Dict& dict) {
    for (const auto& [key, value] : dict.items) {
      tree_.number_keys += key.is(Value::Kind::text) ? 0 : 1;
      path_.emplace_back(key.is(Value::Kind::text) ? key.as_text() : step_text(key));
      visit(value);
      path_.pop_back();
    }
  }

  void visit(const Value& value) {
    if (value.is(Value::Kind::dict) && !value.as_dict().items.empty()) return visit_dict(value.as_dict());
    if (value.is(Value::Kind::dict) || is_terminal(value)) return add(value);
    for (std::size_t i = 0; i < value.as_list().size(); ++i) {
      path_.emplace_back(static_cast<std::int64_t>(i));
      visit(value.as_list()[i]);
      path_.pop_back();
    }
  }

  void add(const Value& value) {
    std::string name = name_of(path_);
    if (!names_.insert(name).second) {
      return tree_.obstacles.push_back({name, Obstacle::Kind::name, "a second item of that dotted name"});
    }
    std::optional<Obstacle> why;
    if (value.is(Value::Kind::tensor)) why = against(name, value.as_entry());
    if (why) return tree_.obstacles.push_back(std::move(*why));
    tree_.items.push_back({std::move(name), path_, value});
  }

  static std::optional<Obstacle> against(const std::string& name, const Entry& entry) {
    if (entry.blocks) return std::nullopt;  // said of every format
    bool whole_bytes = core::bit_width(entry.dtype) % 8 == 0;
    if (!torch_can_hold(entry.dtype) || !whole_bytes) return dtype_obstacle(name, entry.dtype);
    if (entry.bytes == nullptr) return no_data_obstacle(name);
    if (entry.conjugate || entry.negative) return pending_obstacle(name);
    return std::nullopt;
  }

  FlatTree tree_;
  std::vector<PathStep> path_;
  std::unordered_set<std::string> names_;
};

}  // namespace

FlatTree flatten_tree(const Value& root) {
  return Flattening().run(root);
}

}  // namespace ckpt::detail
