#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/format/safetensors/detail.h"
#include "libckpt/format/safetensors/extra.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

void warn(const OpenOptions& options, std::string text) {
  if (options.report != nullptr) options.report->warnings.push_back(std::move(text));
}

/// The items of a state dict by name. Views into texts that the dict's keys own, so that it may grow.
using Places = std::unordered_map<std::string_view, std::size_t>;

Places places_of(const Dict& dict) {
  Places places;
  places.reserve(dict.items.size());
  for (std::size_t i = 0; i < dict.items.size(); ++i) places.emplace(dict.items[i].first.as_text(), i);
  return places;
}

/// Python attributes of tensors, which the entries do not have yet.
void add_attributes(Dict& dict, const Places& places, const Extra& extra) {
  for (const auto& [name, attributes] : extra.attributes) {
    auto found = places.find(name);
    if (found == places.end()) continue;
    Value& value = dict.items[found->second].second;
    Entry entry = value.as_entry();
    entry.attributes = attributes;
    value = Value::tensor(std::make_shared<const Entry>(std::move(entry)));
  }
}

/// Names that were left out because another name has the same tensor.
void add_tied(Dict& dict, Places& places, const Extra& extra, const OpenOptions& options) {
  for (const auto& [dropped, kept] : extra.tied) {
    auto tensor = places.find(kept);
    if (tensor == places.end() || places.contains(dropped)) {
      warn(options, "the note that " + core::quote(dropped) + " is tied to " + core::quote(kept) + " fits no tensor");
      continue;
    }
    Value shared = dict.items[tensor->second].second;
    dict.items.emplace_back(Value::text(dropped), std::move(shared));
    places.emplace(dict.items.back().first.as_text(), dict.items.size() - 1);
  }
}

/// Names that save_model() of the reference library left out: a metadata text that is the name of a tensor of the file,
/// under a key that is none. Anything else in the metadata means something else.
bool is_hint(const std::pair<std::string, std::string>& pair, const Places& places, std::size_t in_file) {
  if (pair.first.empty() || pair.first == kExtraKey || pair.first == "format" || places.contains(pair.first)) {
    return false;
  }
  auto kept = places.find(pair.second);
  return kept != places.end() && kept->second < in_file;
}

/// Whether anything beside the tensors may name one of them. The usual file has {"format": "pt"} and no more.
bool names_tensors(const TextPairs& metadata, const Extra& extra) {
  if (!extra.attributes.empty() || !extra.tied.empty()) return true;
  return std::any_of(metadata.begin(), metadata.end(),
                     [](const auto& pair) { return pair.first != kExtraKey && pair.first != "format"; });
}

/// REQUIRES: nothing but the tensors of the file, `in_file` of them, and notes behind them are in `dict`.
void add_hinted(Dict& dict, Places& places, const TextPairs& metadata, std::size_t in_file) {
  std::vector<std::pair<std::string, std::size_t>> hinted;
  for (const auto& pair : metadata) {
    if (is_hint(pair, places, in_file)) hinted.emplace_back(pair.first, places.at(pair.second));
  }
  std::sort(hinted.begin(), hinted.end());
  for (auto& [dropped, place] : hinted) {
    if (dict.items.back().first.as_text() == dropped) continue;  // said twice
    Value shared = dict.items[place].second;
    dict.items.emplace_back(Value::text(std::move(dropped)), std::move(shared));
  }
}

}  // namespace

TextPairs without_tie_hints(const TextPairs& metadata, const Value& root, const NamedTensors& tensors) {
  if (root.as_dict().items.size() == tensors.size()) return metadata;  // no name was restored
  std::unordered_set<std::string_view> in_file;
  for (const auto& [name, entry] : tensors) in_file.insert(name);
  std::unordered_set<std::string_view> restored;
  for (const auto& [name, value] : root.as_dict().items) {
    if (!in_file.contains(name.as_text())) restored.insert(name.as_text());
  }
  TextPairs rest;
  for (const auto& pair : metadata) {
    if (!restored.contains(pair.first) || !in_file.contains(pair.second)) rest.push_back(pair);
  }
  return rest;
}

EntryPtr make_entry(const SafetensorsItem& item, SourcePtr source, ObjectArena& arena) {
  std::shared_ptr<Entry> entry = arena.make<Entry>();
  entry->dtype = item.dtype;
  entry->shape = item.shape;
  entry->bytes = std::move(source);
  return entry;
}

std::shared_ptr<const SafetensorsDetail> read_safetensors_file(SourcePtr file, const OpenOptions& options) {
  auto detail = std::make_shared<SafetensorsDetail>();
  detail->header = read_safetensors_header(*file, options);
  detail->file = std::move(file);
  const SafetensorsHeader& header = detail->header;
  detail->sources.reserve(header.items.size());
  detail->by_source.reserve(header.items.size());
  for (const SafetensorsItem& item : header.items) {
    detail->sources.push_back(slice(detail->file, header.data_offset() + item.begin, item.end - item.begin));
    detail->by_source.emplace_back(detail->sources.back().get(), detail->sources.size() - 1);
  }
  if (!std::is_sorted(detail->by_source.begin(), detail->by_source.end())) {
    std::sort(detail->by_source.begin(), detail->by_source.end());
  }
  return detail;
}

Value make_state_dict(const NamedTensors& tensors, const TextPairs& metadata, const OpenOptions& options) {
  Dict dict;
  dict.items.reserve(tensors.size());
  for (const auto& [name, entry] : tensors)
    dict.items.emplace_back(Value::text(std::string(name)), Value::tensor(entry));
  auto noted = std::find_if(metadata.begin(), metadata.end(), [](const auto& pair) { return pair.first == kExtraKey; });
  std::optional<Extra> extra = noted == metadata.end() ? Extra() : parse_extra(noted->second);
  if (!extra) {
    warn(options, "the metadata " + core::quote(kExtraKey) + " cannot be understood and is left as it is");
    extra.emplace();
  }
  if (names_tensors(metadata, *extra)) {
    Places places = places_of(dict);
    add_attributes(dict, places, *extra);
    add_tied(dict, places, *extra, options);
    add_hinted(dict, places, metadata, tensors.size());
  }
  if (!extra->module_metadata.is_null()) {
    dict.type = "collections.OrderedDict";
    Dict attributes;
    attributes.items.emplace_back(Value::text("_metadata"), extra->module_metadata);
    dict.attributes = Value::dict(std::move(attributes));
  }
  return Value::dict(std::move(dict));
}

Checkpoint read_safetensors(const Input& input, const OpenOptions& options) {
  std::shared_ptr<const SafetensorsDetail> detail = read_safetensors_file(input.file, options);
  NamedTensors tensors;
  tensors.reserve(detail->sources.size());
  ObjectArena arena(detail->sources.size() * kBytesOfEntry);
  for (std::size_t i = 0; i < detail->sources.size(); ++i) {
    const SafetensorsItem& item = detail->header.items[i];
    tensors.emplace_back(item.name, make_entry(item, detail->sources[i], arena));
  }
  Checkpoint checkpoint;
  checkpoint.root = make_state_dict(tensors, detail->header.metadata, options);
  checkpoint.metadata = without_tie_hints(detail->header.metadata, checkpoint.root, tensors);
  checkpoint.detail = std::move(detail);
  return checkpoint;
}

}  // namespace ckpt::detail
