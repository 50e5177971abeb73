#include "libckpt/objects.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "libckpt/checkpoint.h"
#include "libckpt/format/torch/dangerous_symbols.h"
#include "libckpt/format/torch/loops.h"
#include "libckpt/format/torch/symbols.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

void add_items(std::vector<const Value*>& out, const std::vector<std::pair<Value, Value>>& items) {
  for (const auto& [key, value] : items) out.insert(out.end(), {&key, &value});
}

void add_children(std::vector<const Value*>& out, const Object& object) {
  out.insert(out.end(), {&object.args, &object.kwargs, &object.state});
  for (const Value& item : object.appended) out.push_back(&item);
  add_items(out, object.items);
}

std::vector<const Value*> children_of(const Value& value) {
  std::vector<const Value*> out;
  if (value.is_sequence()) {
    for (const Value& item : value.as_list()) out.push_back(&item);
  } else if (value.is(Value::Kind::dict)) {
    add_items(out, value.as_dict().items);
    out.insert(out.end(), {&value.as_dict().attributes, &value.as_dict().constructor_args});
  } else if (value.is(Value::Kind::object)) {
    add_children(out, value.as_object());
  } else if (value.is(Value::Kind::tensor)) {
    out.push_back(&value.as_entry().attributes);
  }
  return out;
}

/// What a node itself is named after, "" for plain data.
std::string class_of(const Value& value) {
  if (value.is(Value::Kind::tensor)) return value.as_entry().python_class;
  if (value.is(Value::Kind::dict)) {
    const std::string& type = value.as_dict().type;
    return type == "dict" || type == "collections.OrderedDict" ? "" : type;
  }
  if (!value.is(Value::Kind::object)) return "";
  const Object& object = value.as_object();
  return as_label(object) || reference_number(object) ? "" : object.symbol;
}

/// Calls `visit` for each node once, in file order, as long as it returns true.
void for_each_node(const Value& root, const std::function<bool(const Value&)>& visit) {
  std::vector<const Value*> todo = {&root};
  std::unordered_set<const void*> seen;
  while (!todo.empty()) {
    const Value* here = todo.back();
    todo.pop_back();
    if (here->identity() == nullptr || !seen.insert(here->identity()).second) continue;
    if (!visit(*here)) return;
    std::vector<const Value*> children = children_of(*here);
    todo.insert(todo.end(), children.rbegin(), children.rend());
  }
}

bool is_foreign(const std::string& symbol) {
  if (symbol.empty()) return false;
  std::size_t dot = symbol.rfind('.');
  std::string module = dot == std::string::npos ? "" : symbol.substr(0, dot);
  return make_symbol(module, symbol.substr(dot + 1)).role >= SymbolRole::foreign;
}

/// As it stands, functools.partial does nothing; what it is to call is looked at as well.
bool is_attack(const std::string& symbol) {
  return symbol != "functools.partial" && is_dangerous(symbol);
}

/// The first unknown class at or below a node, "" when all are known, and the first name that attacks use.
ForeignObject look_into(const Value& value) {
  ForeignObject found;
  for_each_node(value, [&](const Value& node) {
    std::string symbol = class_of(node);
    if (!is_foreign(symbol)) return true;
    if (found.symbol.empty()) found.symbol = symbol;
    if (is_attack(symbol)) found.attack = symbol;
    return found.attack.empty();
  });
  return found;
}

class ForeignLister {
 public:
  std::vector<ForeignObject> run(const Value& root) {
    visit(root, "");
    return std::move(found_);
  }

 private:
  void visit(const Value& value, const std::string& name) {
    if (value.is(Value::Kind::object) || value.is(Value::Kind::tensor)) return look_at(value, name);
    bool container = value.is(Value::Kind::dict) || value.is_sequence();
    if (!container || !seen_.insert(value.identity()).second) return;
    std::string start = name.empty() ? "" : name + ".";
    if (value.is_sequence()) {
      for (std::size_t i = 0; i < value.as_list().size(); ++i) visit(value.as_list()[i], start + std::to_string(i));
      return;
    }
    for (const auto& [key, child] : value.as_dict().items) visit(child, start + step_text(key));
  }

  void look_at(const Value& value, const std::string& name) {
    bool plain = value.is(Value::Kind::tensor) && value.as_entry().python_class.empty();
    if (plain || !seen_.insert(value.identity()).second) return;
    ForeignObject found = look_into(value);
    if (found.symbol.empty()) return;
    found.name = name;
    found.node = value.identity();
    found.is_tensor = value.is(Value::Kind::tensor);
    found_.push_back(std::move(found));
  }

  std::vector<ForeignObject> found_;
  std::unordered_set<const void*> seen_;
};

void forget_text(Report& report, const std::string& text) {
  auto at = std::find(report.warnings.begin(), report.warnings.end(), text);
  if (at != report.warnings.end()) report.warnings.erase(at);
}

void narrow_globals(Report& report, const std::function<bool(const std::string&)>& is_there) {
  if (report.globals.empty()) return;
  std::string before = weights_only_text(report.globals);
  std::erase_if(report.globals, std::not_fn(is_there));
  auto at = std::find(report.warnings.begin(), report.warnings.end(), before);
  if (at == report.warnings.end()) return;
  if (report.globals.empty()) {
    report.warnings.erase(at);
  } else {
    *at = weights_only_text(report.globals);
  }
}

void narrow_modules(Report& report, const std::unordered_set<const void*>& nodes) {
  std::vector<std::string> modules;
  std::vector<const void*> dicts;
  for (std::size_t i = 0; i < report.modules.size(); ++i) {
    if (nodes.contains(report.module_dicts[i])) {
      modules.push_back(report.modules[i]);
      dicts.push_back(report.module_dicts[i]);
    } else {
      forget_text(report, pickled_module_text(report.modules[i]));
    }
  }
  report.modules = std::move(modules);
  report.module_dicts = std::move(dicts);
}

}  // namespace

std::vector<std::string> list_classes(const Value& root) {
  std::vector<std::string> found;
  std::unordered_set<std::string> seen;
  for_each_node(root, [&](const Value& node) {
    std::string symbol = class_of(node);
    if (!symbol.empty() && seen.insert(symbol).second) found.push_back(std::move(symbol));
    return true;
  });
  return found;
}

std::vector<ForeignObject> list_foreign_objects(const Value& root) {
  return ForeignLister().run(root);
}

void narrow_report(Report& report, const Value& part) {
  if (report.foreign.empty() && report.globals.empty() && report.modules.empty()) return;
  std::vector<std::string> listed = list_classes(part);
  std::unordered_set<std::string> classes(listed.begin(), listed.end());
  auto is_there = [&](const std::string& symbol) { return classes.contains(symbol); };
  for (const std::string& symbol : report.foreign) {
    if (!is_there(symbol)) forget_text(report, unknown_class_text(symbol));
  }
  std::erase_if(report.foreign, std::not_fn(is_there));
  narrow_globals(report, is_there);
  std::unordered_set<const void*> nodes;
  for_each_node(part, [&](const Value& node) { return nodes.insert(node.identity()).second; });
  narrow_modules(report, nodes);
}

std::string unknown_class_text(const std::string& symbol) {
  return core::quote(symbol) + " is not known; its objects are kept as inert data";
}

std::string weights_only_text(const std::vector<std::string>& symbols) {
  std::vector<std::string> quoted;
  for (const std::string& symbol : symbols) quoted.push_back(core::quote(symbol));
  return "torch.load(weights_only=True) refuses this file, because it names " + core::join(quoted, ", ");
}

std::string pickled_module_text(const std::string& symbol) {
  return core::quote(symbol) + " is a pickled module: its tensors are read as a state dict, the rest is left out";
}

}  // namespace ckpt
