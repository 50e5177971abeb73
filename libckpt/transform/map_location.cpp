#include "libckpt/transform/map_location.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>

#include "libckpt/transform/tree_map.h"
#include "libcore/base/device.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

/// Device types that are registered under names of their own (PyTorch calls them privateuseone).
constexpr std::array<std::string_view, 8> kPrivateTypes = {"npu", "mlu", "musa", "gcu", "sdaa", "tpu", "spyre", "maca"};

std::string_view type_of(std::string_view tag) {
  return tag.substr(0, tag.find(':'));
}

/// "name" or "name:index".
bool is_tag(std::string_view tag) {
  std::string_view type = type_of(tag);
  bool name = !type.empty() && std::all_of(type.begin(), type.end(), [](unsigned char c) {
    return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
  if (!name || type.size() == tag.size()) return name;
  std::string_view index = tag.substr(type.size() + 1);
  return !index.empty() && index.size() <= 3 && (index.size() == 1 || index[0] != '0') &&
         std::all_of(index.begin(), index.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

void require_target(const std::string& tag, const std::set<std::string, std::less<>>& known_types) {
  if (core::try_parse_device(tag)) return;
  bool known = std::find(kPrivateTypes.begin(), kPrivateTypes.end(), type_of(tag)) != kPrivateTypes.end() ||
               known_types.contains(type_of(tag));
  if (known && is_tag(tag)) return;
  throw Error(ErrorCode::usage, core::quote(tag) + " is not a device; use cpu, cuda, cuda:0, mps, xpu:1, ...");
}

void check(const MapLocationOptions& options) {
  if (options.to.empty() == options.map.empty()) {
    throw Error(ErrorCode::usage, "give either one device for all tensors, or a map of devices");
  }
  std::set<std::string, std::less<>> types;
  std::set<std::string> seen;
  for (const auto& [from, to] : options.map) {
    if (!is_tag(from)) throw Error(ErrorCode::usage, core::quote(from) + " is not a device tag");
    if (!seen.insert(from).second) throw Error(ErrorCode::usage, "the map names " + core::quote(from) + " twice");
    types.emplace(type_of(from));
  }
  for (const auto& [from, to] : options.map) require_target(to, types);
  if (!options.to.empty()) require_target(options.to, types);
}

/// torch.device('cuda', 1) or torch.device('cuda:1') as a tag, "" for anything else.
std::string device_tag(const Object& object) {
  if (object.symbol != "torch.device" || object.form != Object::Form::call || !object.args.is_sequence()) return "";
  const Value::List& args = object.args.as_list();
  if (args.empty() || args.size() > 2 || !args[0].is(Value::Kind::text)) return "";
  if (args.size() == 1) return args[0].as_text();
  return args[1].is(Value::Kind::integer) ? args[0].as_text() + ":" + std::to_string(args[1].as_integer()) : "";
}

Value device_args(std::string_view tag) {
  Value::List args = {Value::text(std::string(type_of(tag)))};
  if (args[0].as_text().size() < tag.size()) {
    args.push_back(Value::integer(std::stoll(std::string(tag.substr(args[0].as_text().size() + 1)))));
  }
  return Value::tuple(std::move(args));
}

/// The nodes below a place in the tree: tensors, their storages, objects.
class Scope final : public detail::TreeMap {
 public:
  bool holds(const void* node) const { return everything_ || nodes_.contains(node); }
  static Scope everything() {
    Scope scope;
    scope.everything_ = true;
    return scope;
  }
  static Scope below(const Value& top) {
    Scope scope;
    scope.map(top);
    return scope;
  }

 protected:
  Value map_tensor(const Value& tensor) override {
    nodes_.insert(tensor.identity());
    if (tensor.as_entry().view) nodes_.insert(tensor.as_entry().view->storage.get());
    return tensor;
  }
  bool edit_object(const Value& node, Object&) override {
    nodes_.insert(node.identity());
    return false;
  }

 private:
  std::set<const void*> nodes_;
  bool everything_ = false;
};

class LocationMap final : public detail::TreeMap {
 public:
  LocationMap(const MapLocationOptions& options, const Scope& scope, LocationChanges& changes)
      : options_(options), scope_(scope), changes_(changes) {}

 protected:
  Value map_tensor(const Value& tensor) override {
    const Entry& entry = tensor.as_entry();
    // A storage has one location: what shares it with a tensor in scope moves along.
    if (!scope_.holds(tensor.identity()) && !(entry.view && scope_.holds(entry.view->storage.get()))) return tensor;
    ++changes_.tensors;
    std::string to = target(entry.location);
    if (to == entry.location) return tensor;
    count(entry.location, to);
    auto moved = std::make_shared<Entry>(entry);
    if (moved->view && moved->view->storage) moved->view->storage = moved_storage(moved->view->storage);
    moved->location = std::move(to);
    return Value::tensor(std::move(moved));
  }

  bool edit_object(const Value& node, Object& object) override {
    std::string tag = device_tag(object);
    if (tag.empty() || !scope_.holds(node.identity()) || target(tag) == tag) return false;
    object.args = device_args(target(tag));
    ++changes_.device_values;
    return true;
  }

 private:
  std::string target(const std::string& tag) const {
    if (tag == "meta") return tag;
    if (!options_.to.empty()) return options_.to;
    for (const auto& [from, to] : options_.map) {
      if (from == tag) return to;
    }
    return tag;
  }

  void count(const std::string& from, const std::string& to) {
    ++changes_.changed;
    for (LocationChanges::Count& known : changes_.counts) {
      if (known.from == from && known.to == to) {
        ++known.tensors;
        return;
      }
    }
    changes_.counts.push_back({from, to, 1});
  }

  /// One new storage for each old one, so that tensors that shared a storage still do.
  std::shared_ptr<const Storage> moved_storage(const std::shared_ptr<const Storage>& storage) {
    std::shared_ptr<const Storage>& known = storages_[storage];
    if (known == nullptr) {
      Storage copy = *storage;
      copy.location = target(storage->location);
      known = std::make_shared<const Storage>(std::move(copy));
    }
    return known;
  }

  const MapLocationOptions& options_;
  const Scope& scope_;
  LocationChanges& changes_;
  std::map<std::shared_ptr<const Storage>, std::shared_ptr<const Storage>> storages_;
};

}  // namespace

Checkpoint map_location(const Checkpoint& checkpoint, const MapLocationOptions& options, LocationChanges* changes) {
  check(options);
  LocationChanges counted;
  Scope scope = options.at.empty() ? Scope::everything() : Scope::below(value_at(checkpoint.root, options.at));
  Checkpoint out = checkpoint;
  out.root = LocationMap(options, scope, counted).map(checkpoint.root);
  if (changes != nullptr) *changes = counted;
  return out;
}

Checkpoint detail::move_below(const Checkpoint& checkpoint, const Value& nodes, const std::string& to,
                              LocationChanges* changes) {
  MapLocationOptions options;
  options.to = to;
  check(options);
  LocationChanges counted;
  Checkpoint out = checkpoint;
  Scope scope = Scope::below(nodes);
  out.root = LocationMap(options, scope, counted).map(checkpoint.root);
  if (changes != nullptr) *changes = counted;
  return out;
}

}  // namespace ckpt
