#include "libckpt/checkpoint.h"

#include "libckpt/children.h"
#include "libckpt/nearest_path.h"
#include "libckpt/value_path.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

/// Calls visit(path, name, tensor) in file order. The path is kept as pointers: steps are copied where one is listed.
template <class Visit>
class TensorWalk {
 public:
  explicit TensorWalk(const Visit& visit) : visit_(visit) {}

  void walk(const Value& value) {
    if (value.is(Value::Kind::tensor)) return visit_(path_, name_, value);
    for_each_child(value, [this](const Value* step, const Value& child) {
      const std::size_t before = name_.size();
      if (step != nullptr) enter(*step);
      walk(child);
      if (step != nullptr) path_.pop_back();
      name_.resize(before);
    });
  }

 private:
  void enter(const Value& step) {
    if (!path_.empty()) name_ += '.';
    if (step.is(Value::Kind::text)) {
      name_ += step.as_text();
    } else {
      name_ += step_text(step);
    }
    path_.push_back(&step);
  }

  const Visit& visit_;
  std::vector<const Value*> path_;
  std::string name_;
};

template <class Visit>
void walk_tensors(const Value& root, const Visit& visit) {
  TensorWalk<Visit>(visit).walk(root);
}

std::string describe_keys(const Value& root) {
  if (!root.is(Value::Kind::dict)) return "the top is not a dict";
  std::string keys;
  std::size_t shown = 0;
  for (const auto& [key, child] : root.as_dict().items) {
    if (++shown > 8) return "the top has " + keys + ", ...";
    keys += (keys.empty() ? "" : ", ") + core::quote(step_text(key), 60);
  }
  return keys.empty() ? "the top is empty" : "the top has " + keys;
}

}  // namespace

std::string step_text(const Value& step) {
  switch (step.kind()) {
    case Value::Kind::text:
      return step.as_text();
    case Value::Kind::integer:
      return std::to_string(step.as_integer());
    case Value::Kind::boolean:
      return step.as_boolean() ? "True" : "False";
    case Value::Kind::null:
      return "None";
    case Value::Kind::real:
      return std::to_string(step.as_real());
    case Value::Kind::bytes:
      return core::printable(core::as_text(step.as_bytes()));
    case Value::Kind::tuple:
    case Value::Kind::frozenset: {
      std::string out = "(";
      for (const Value& item : step.as_list()) out += (out.size() > 1 ? ", " : "") + step_text(item);
      return out + ")";
    }
    case Value::Kind::object:
      return step.as_object().symbol;
    default:
      return "?";
  }
}

std::string type_text(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::null:
      return "None";
    case Value::Kind::boolean:
      return "bool";
    case Value::Kind::integer:
    case Value::Kind::big_integer:
      return "int";
    case Value::Kind::real:
      return "float";
    case Value::Kind::complex:
      return "complex";
    case Value::Kind::text:
      return "str";
    case Value::Kind::bytes:
      return "bytes";
    case Value::Kind::bytearray:
      return "bytearray";
    case Value::Kind::list:
      return "list";
    case Value::Kind::tuple:
      return "tuple";
    case Value::Kind::set:
      return "set";
    case Value::Kind::frozenset:
      return "frozenset";
    case Value::Kind::dict:
      return value.as_dict().type;
    case Value::Kind::tensor:
      return "tensor";
    case Value::Kind::object:
      return value.as_object().symbol;
  }
  return "?";
}

std::string path_text(const std::vector<Value>& path) {
  std::string out;
  for (const Value& step : path) out += (&step == &path.front() ? "" : ".") + step_text(step);
  return out;
}

std::vector<NamedEntry> list_entries(const Value& root) {
  std::vector<NamedEntry> entries;
  walk_tensors(root, [&](const std::vector<const Value*>& path, const std::string& name, const Value& tensor) {
    NamedEntry& entry = entries.emplace_back();
    entry.path.reserve(path.size());
    for (const Value* step : path) entry.path.push_back(*step);
    entry.name = name;
    entry.entry = tensor.entry_ptr();
  });
  return entries;
}

void visit_tensors(const Value& root, const std::function<void(std::string_view name, const Value& tensor)>& visit) {
  walk_tensors(root, [&](const auto& /*path*/, const std::string& name, const Value& tensor) { visit(name, tensor); });
}

void visit_named_tensors(const Value& root,
                         const std::function<void(std::string_view name, bool kept, const Value& tensor)>& visit) {
  walk_tensors(root, [&](const std::vector<const Value*>& path, const std::string& name, const Value& tensor) {
    const bool kept = path.size() == 1 && path[0]->is(Value::Kind::text);
    visit(kept ? path[0]->as_text() : name, kept, tensor);
  });
}

const Value& value_at(const Value& root, std::string_view path) {
  if (auto way = detail::find_path(root, path)) return way->empty() ? root : way->back().child();
  throw core::Error(core::ErrorCode::key,
                    "no " + core::quote(path) + " in the file: " + describe_keys(root) + did_you_mean_path(root, path));
}

std::vector<std::pair<std::string, std::int64_t>> module_versions(const Dict& state_dict) {
  std::vector<std::pair<std::string, std::int64_t>> versions;
  const Value* metadata = state_dict.attributes.find("_metadata");
  if (metadata == nullptr || !metadata->is(Value::Kind::dict)) return versions;
  for (const auto& [module, local] : metadata->as_dict().items) {
    const Value* version = local.find("version");
    if (!module.is(Value::Kind::text) || version == nullptr || !version->is(Value::Kind::integer)) continue;
    versions.emplace_back(module.as_text(), version->as_integer());
  }
  return versions;
}

}  // namespace ckpt
