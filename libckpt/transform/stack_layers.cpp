#include "libckpt/transform/stack_layers.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "libckpt/state_dicts.h"
#include "libckpt/transform/same_values.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

/// A key with a number in it: "model.layers.", 12, ".mlp.weight".
struct NumberedKey {
  std::string before;
  std::uint64_t number = 0;
  std::string behind;
};

/// Every way to read a key so.
std::vector<NumberedKey> numbered_keys(const std::string& key) {
  std::vector<NumberedKey> found;
  std::size_t at = 0;
  for (std::string_view component : core::split(key, '.')) {
    std::uint64_t number = 0;
    auto [end, error] = std::from_chars(component.data(), component.data() + component.size(), number);
    if (at > 0 && error == std::errc() && end == component.data() + component.size()) {
      found.push_back({key.substr(0, at), number, key.substr(at + component.size())});
    }
    at += component.size() + 1;
  }
  return found;
}

/// One state dict, its tensors by layer.
struct LayeredModel {
  std::string file;
  const Value* value = nullptr;
  std::map<std::uint64_t, std::map<std::string, EntryPtr>> layers;
  std::map<std::string, EntryPtr> others;
};

/// The numbered name with most tensors below it.
std::string numbered_name(const Value& root) {
  std::map<std::string, std::uint64_t> counts;
  for (const NamedEntry& named : list_entries(root)) {
    for (const NumberedKey& key : numbered_keys(named.name)) ++counts[key.before];
  }
  auto most = std::ranges::max_element(counts, {}, [](const auto& row) { return row.second; });
  if (most == counts.end()) throw Error(ErrorCode::key, "no key has the number of a layer in it");
  return most->first;
}

std::optional<NumberedKey> layer_of(const std::string& key, const std::string& numbered) {
  if (!key.starts_with(numbered)) return std::nullopt;
  for (NumberedKey& found : numbered_keys(key)) {
    if (found.before == numbered) return std::move(found);
  }
  return std::nullopt;
}

LayeredModel model_of(const Checkpoint& checkpoint, const std::string& at, const std::string& numbered) {
  LayeredModel model;
  model.file = checkpoint.path.string();
  model.value = choose_state_dict(checkpoint.root, at).value;
  for (const NamedEntry& named : list_entries(*model.value)) {
    if (const std::optional<NumberedKey> key = layer_of(named.name, numbered)) {
      model.layers[key->number][key->behind] = named.entry;
    } else {
      model.others[named.name] = named.entry;
    }
  }
  return model;
}

/// Error(refused) unless a layer has the tensors of the first one that is taken.
void require_same_layer(const std::map<std::string, EntryPtr>& first, const std::map<std::string, EntryPtr>& layer,
                        const std::string& name) {
  bool same = first.size() == layer.size();
  for (const auto& [behind, entry] : first) {
    auto found = layer.find(behind);
    same = same && found != layer.end() && found->second->dtype == entry->dtype && found->second->shape == entry->shape;
  }
  if (!same) throw Error(ErrorCode::refused, core::quote(name) + " has other tensors, types or shapes than the first");
}

class LayerStack {
 public:
  LayerStack(const std::vector<LayeredModel>& models, const StackLayersOptions& options, StackLayersReport& report)
      : models_(models), options_(options), report_(report) {}

  Value run() {
    for (std::size_t i = 0; i < models_.size(); ++i) {
      core::with_context(models_[i].file, [&] { take_run(models_[i], options_.layers[i]); });
    }
    note_differences();
    return rebuilt();
  }

 private:
  void take_run(const LayeredModel& model, const std::pair<std::uint64_t, std::uint64_t>& run) {
    for (std::uint64_t number = run.first; number < run.second; ++number) {
      auto layer = model.layers.find(number);
      if (layer == model.layers.end()) {
        throw Error(ErrorCode::key, "has no layer " + std::to_string(number) + " (" + core::quote(report_.numbered) +
                                        " goes to " + std::to_string(model.layers.rbegin()->first) + ")");
      }
      if (!taken_.empty()) {
        require_same_layer(*taken_.front(), layer->second, report_.numbered + std::to_string(number));
      }
      taken_.push_back(&layer->second);
    }
  }

  void note_differences() {
    for (const auto& [name, entry] : models_.front().others) {
      const bool same = std::ranges::all_of(models_, [&](const LayeredModel& model) {
        auto found = model.others.find(name);
        return found != model.others.end() && detail::same_values(*entry, *found->second);
      });
      if (!same) report_.differing.push_back(name);
    }
  }

  /// The first model's dict; the layers stand where its first layer stood.
  Value rebuilt() {
    const Dict& first = models_.front().value->as_dict();
    Dict out = first;
    out.items.clear();
    bool placed = false;
    for (const auto& [key, value] : first.items) {
      if (!key.is(Value::Kind::text) || !layer_of(key.as_text(), report_.numbered)) {
        out.items.emplace_back(key, value);
      } else if (!placed) {
        add_layers(out);
        placed = true;
      }
    }
    return Value::dict(std::move(out));
  }

  void add_layers(Dict& out) {
    for (const auto* layer : taken_) {
      const std::string start = report_.numbered + std::to_string(report_.layers++);
      for (const auto& [behind, entry] : *layer) {
        out.items.emplace_back(Value::text(start + behind), Value::tensor(entry));
      }
    }
  }

  const std::vector<LayeredModel>& models_;
  const StackLayersOptions& options_;
  StackLayersReport& report_;
  std::vector<const std::map<std::string, EntryPtr>*> taken_;
};

void require_runs(const std::vector<Checkpoint>& checkpoints, const StackLayersOptions& options) {
  if (checkpoints.empty() || checkpoints.size() != options.layers.size()) {
    throw Error(ErrorCode::usage, core::format_count(options.layers.size()) + " runs of layers were given for " +
                                      core::format_count(checkpoints.size()) + " checkpoints");
  }
  for (const auto& [first, end] : options.layers) {
    if (first >= end) {
      throw Error(ErrorCode::usage, "the run " + std::to_string(first) + "-" + std::to_string(end) + " has no layers");
    }
  }
}

}  // namespace

Checkpoint stack_layers(const std::vector<Checkpoint>& checkpoints, const StackLayersOptions& options,
                        StackLayersReport* report) {
  require_runs(checkpoints, options);
  auto place = [&](std::size_t i) {
    if (options.at.empty()) return std::string();
    return options.at.size() == 1 ? options.at.front() : options.at.at(i);
  };
  StackLayersReport noted;
  noted.numbered = core::with_context(checkpoints.front().path.string(), [&] {
    return numbered_name(*choose_state_dict(checkpoints.front().root, place(0)).value);
  });
  std::vector<LayeredModel> models;
  for (std::size_t i = 0; i < checkpoints.size(); ++i) {
    models.push_back(core::with_context(checkpoints[i].path.string(),
                                        [&] { return model_of(checkpoints[i], place(i), noted.numbered); }));
    if (models.back().layers.empty()) {
      throw Error(ErrorCode::key, "has no " + core::quote(noted.numbered)).add_context(models.back().file);
    }
  }
  Checkpoint out;
  out.format = checkpoints.front().format;
  out.metadata = checkpoints.front().metadata;
  out.root = LayerStack(models, options, noted).run();
  if (report != nullptr) *report = std::move(noted);
  return out;
}

}  // namespace ckpt
