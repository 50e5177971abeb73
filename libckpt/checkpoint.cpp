#include "libckpt/checkpoint.h"

#include "libckpt/children.h"
#include "libckpt/nearest_path.h"
#include "libckpt/value_path.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

class EntryLister {
 public:
  std::vector<NamedEntry> run(const Value& root) {
    walk(root);
    return std::move(entries_);
  }

 private:
  void walk(const Value& value) {
    if (value.is(Value::Kind::tensor)) entries_.push_back({path_, path_text(path_), value.entry_ptr()});
    for_each_child(value, [this](const Value* step, const Value& child) {
      if (step != nullptr) path_.push_back(*step);
      walk(child);
      if (step != nullptr) path_.pop_back();
    });
  }

  std::vector<Value> path_;
  std::vector<NamedEntry> entries_;
};

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
  return EntryLister().run(root);
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
