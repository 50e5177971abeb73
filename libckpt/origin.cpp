#include "libckpt/origin.h"

#include <algorithm>

#include "libckpt/state_dicts.h"

namespace ckpt {
namespace {

constexpr std::string_view kMetadata = "_metadata";
constexpr std::size_t kMostBytes = 4000;

void set_text(Dict& dict, std::string_view key, const std::string& text) {
  std::erase_if(dict.items, [&](const auto& item) { return item.first == Value::text(std::string(key)); });
  if (!text.empty()) dict.items.emplace_back(Value::text(std::string(key)), Value::text(text));
}

/// `dict[key]`, where it is a dict; else an ordered one without items.
Dict dict_in(const Dict& dict, std::string_view key) {
  const Value* there = dict.find(key);
  if (there != nullptr && there->is(Value::Kind::dict)) return there->as_dict();
  Dict fresh;
  fresh.type = "collections.OrderedDict";
  return fresh;
}

/// An empty one goes.
void put_dict(Dict& dict, std::string_view key, Dict item) {
  const Value name = Value::text(std::string(key));
  auto at = std::find_if(dict.items.begin(), dict.items.end(), [&](const auto& pair) { return pair.first == name; });
  if (item.items.empty()) {
    if (at != dict.items.end()) dict.items.erase(at);
  } else if (at != dict.items.end()) {
    at->second = Value::dict(std::move(item));
  } else {
    dict.items.emplace_back(name, Value::dict(std::move(item)));
  }
}

Value with_origin(const Dict& state_dict, const std::string& text) {
  Dict out = state_dict;
  Dict attributes = out.attributes.is(Value::Kind::dict) ? out.attributes.as_dict() : Dict();
  Dict metadata = dict_in(attributes, kMetadata);
  Dict root = dict_in(metadata, "");
  if (root.items.empty()) root.type = "dict";
  set_text(root, kOriginKey, text);
  put_dict(metadata, "", std::move(root));
  put_dict(attributes, kMetadata, std::move(metadata));
  if (!attributes.items.empty()) out.type = "collections.OrderedDict";  // a plain dict has no attributes
  out.attributes = attributes.items.empty() ? Value() : Value::dict(std::move(attributes));
  return Value::dict(std::move(out));
}

/// A state dict at the top; of other types than these two a subclass would be lost.
bool takes_attributes(const Value& root) {
  if (!root.is(Value::Kind::dict)) return false;
  const Dict& dict = root.as_dict();
  const bool plain = dict.type == "dict" || dict.type == "collections.OrderedDict";
  return plain && std::any_of(dict.items.begin(), dict.items.end(),
                              [](const auto& item) { return item.second.is(Value::Kind::tensor); });
}

}  // namespace

Checkpoint with_origin(const Checkpoint& checkpoint, const std::string& text) {
  Checkpoint out = checkpoint;
  std::erase_if(out.metadata, [](const auto& pair) { return pair.first == kOriginKey; });
  if (!text.empty()) out.metadata.emplace_back(kOriginKey, text);
  if (!takes_attributes(out.root)) return out;
  if (text.empty() && origin_of(out.root.as_dict()).empty()) return out;
  out.root = with_origin(out.root.as_dict(), text);
  return out;
}

std::string origin_of(const Checkpoint& checkpoint) {
  for (const auto& [key, text] : checkpoint.metadata) {
    if (key == kOriginKey) return text.substr(0, kMostBytes);
  }
  for (const StateDictRef& ref : list_state_dicts(checkpoint.root)) {
    std::string text = origin_of(*ref.dict);
    if (!text.empty()) return text;
  }
  return "";
}

std::string origin_of(const Dict& state_dict) {
  const Value* metadata = state_dict.attributes.find(kMetadata);
  if (metadata == nullptr || !metadata->is(Value::Kind::dict)) return "";
  for (const auto& [module, local] : metadata->as_dict().items) {
    const Value* text = local.find(kOriginKey);
    if (text != nullptr && text->is(Value::Kind::text)) return text->as_text().substr(0, kMostBytes);
  }
  return "";
}

}  // namespace ckpt
