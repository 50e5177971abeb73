#include "libckpt/transform/publish.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "libckpt/hint.h"
#include "libckpt/io/checksum.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/cast.h"
#include "libckpt/transform/compact.h"
#include "libckpt/transform/drop_objects.h"
#include "libckpt/transform/entry_map.h"
#include "libckpt/transform/map_location.h"
#include "libckpt/transform/optimizer_names.h"
#include "libckpt/transform/prefix.h"
#include "libckpt/transform/state_dict_search.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::WeightsRef;

std::string shown(const WeightsRef& weights) {
  std::size_t tensors = weights.unnamed.empty() ? list_entries(weights.dict).size() : weights.unnamed.size();
  return (weights.name.empty() ? "the top" : core::quote(weights.name)) + " (" + core::format_count(tensors) +
         (tensors == 1 ? " tensor)" : " tensors)");
}

[[noreturn]] void throw_several(const std::string& what, const std::vector<const WeightsRef*>& candidates,
                                Hint advice) {
  std::string list;
  for (const WeightsRef* weights : candidates) list += (list.empty() ? "" : ", ") + shown(*weights);
  throw HintedError(ErrorCode::usage, "several " + what + ": " + list, std::move(advice));
}

/// Those at or below a dotted path; all with "".
std::vector<const WeightsRef*> below(const std::vector<WeightsRef>& all, const std::string& at) {
  std::vector<const WeightsRef*> found;
  for (const WeightsRef& weights : all) {
    if (!at.empty() && weights.name == at) return {&weights};
    if (at.empty() || weights.name.starts_with(at + ".")) found.push_back(&weights);
  }
  return found;
}

/// The dict that choose_state_dict() takes; where there is none, the only pickled module. Settings may hold modules of
/// their own beside the state dict of the model. Null where the file has nothing but averages.
std::optional<WeightsRef> choose_model(const Value& root, const std::vector<WeightsRef>& all,
                                       const PublishOptions& options) {
  std::vector<const WeightsRef*> candidates = below(all, options.at);
  auto is_model = [&](const WeightsRef* weights) { return !options.at.empty() || !weights->is_average; };
  std::erase_if(candidates, std::not_fn(is_model));
  bool averages_only = candidates.empty() && !all.empty() && options.at.empty();
  if (averages_only) return std::nullopt;
  bool pickled = !candidates.empty() && std::all_of(candidates.begin(), candidates.end(),
                                                    [](const WeightsRef* weights) { return weights->is_pickled(); });
  if (!pickled) {
    StateDictRef chosen = choose_state_dict(root, options.at);
    return WeightsRef{std::move(chosen.path), std::move(chosen.name), *chosen.value};
  }
  if (candidates.size() == 1) return *candidates.front();
  throw_several("pickled modules", candidates,
                {"name one, as in {}", {{.option = Hint::Option::part, .name = candidates.back()->name}}});
}

const WeightsRef* choose_average(const std::vector<WeightsRef>& all, const PublishOptions& options) {
  if (options.ema == "off" || (options.ema == "auto" && !options.at.empty())) return nullptr;
  std::vector<const WeightsRef*> candidates;
  if (options.ema == "auto") {
    for (const WeightsRef& weights : all) {
      if (weights.is_average) candidates.push_back(&weights);
    }
  } else {
    candidates = below(all, options.ema);
    if (candidates.empty()) throw Error(ErrorCode::key, "no weights at " + core::quote(options.ema));
  }
  if (candidates.size() > 1) {
    throw_several("averages", candidates,
                  {"name one with {}, or use {}", {{Hint::Option::average}, {Hint::Option::no_average}}});
  }
  return candidates.empty() ? nullptr : candidates.front();
}

/// What averaging helpers keep beside the weights.
bool is_counter(std::string_view name) {
  constexpr std::array<std::string_view, 7> kCounters = {"n_averaged", "decay",   "num_updates",      "initted",
                                                         "step",       "updates", "optimization_step"};
  return std::find(kCounters.begin(), kCounters.end(), name) != kCounters.end();
}

std::string without_dots(std::string_view text) {
  std::string out(text);
  std::erase(out, '.');
  return out;
}

Checkpoint checkpoint_of(const Checkpoint& file, Value dict) {
  Checkpoint out;
  out.root = std::move(dict);
  out.format = file.format;
  out.path = file.path;
  out.metadata = file.metadata;
  return out;
}

/// Does the work and keeps the account of it.
class Publisher {
 public:
  Publisher(const Checkpoint& file, const PublishOptions& options) : file_(file), options_(options) {}

  Publication run() {
    std::vector<WeightsRef> all = detail::find_weights(file_.root);
    model_ = choose_model(file_.root, all, options_);
    average_ = choose_average(all, options_);
    if (!model_ && average_ == nullptr) {
      throw Error(ErrorCode::key, "the file has no state dict of a model, only averages");
    }
    out_.source = average_ != nullptr ? average_->name : model_->name;
    out_.is_average = average_ != nullptr;
    Checkpoint taken = checkpoint_of(file_, combine());
    taken = plain(map_location(without_objects(std::move(taken)), {.to = "cpu"}));
    count_parts();
    out_.uncast = compact(taken);
    out_.checkpoint = changed_type(out_.uncast);
    for (const NamedEntry& named : list_entries(out_.checkpoint.root)) out_.elements += named.entry->numel();
    out_.tensors = list_entries(out_.checkpoint.root).size();
    out_.bytes_after = stored_bytes(out_.checkpoint.root);
    out_.bytes_before = stored_bytes(file_.root);
    return std::move(out_);
  }

 private:
  void say(std::string step) { out_.steps.push_back(std::move(step)); }

  Value stripped(const Value& dict, const std::string& place) {
    if (!options_.strip_wrappers) return dict;
    KeyChanges changes;
    Checkpoint bare = strip_prefix(checkpoint_of(file_, dict), {.wrappers = true}, &changes);
    if (!changes.renamed.empty()) {
      say("removed wrapper prefixes from " + core::format_count(changes.renamed.size()) + " keys" +
          (place.empty() ? "" : " of " + core::quote(place)) + " (" + changes.renamed.front().from + " -> " +
          changes.renamed.front().to + ")");
    }
    return bare.root;
  }

  /// The weights that are published: the average, with what it lacks (buffers) from the model.
  Value combine() {
    if (average_ == nullptr) {
      if (!model_->name.empty()) say("took the state dict at " + core::quote(model_->name));
      return stripped(inner_average(model_->dict), model_->name);
    }
    say("took the moving average at " + core::quote(average_->name));
    Value average = without_counters(stripped(average_->unnamed.empty() ? average_->dict : named(), average_->name));
    if (!model_) return average;
    return fill(stripped(model_->dict, model_->name), average, core::quote(model_->name));
  }

  /// Shadows without names are the model's parameters in order; the shapes must agree.
  Value named() const {
    std::vector<detail::ModelParameter> parameters;
    if (model_) parameters = detail::model_parameters(model_->dict);
    const Value::List& shadows = average_->unnamed;
    bool fits = parameters.size() == shadows.size();
    Dict out;
    for (std::size_t i = 0; fits && i < shadows.size(); ++i) {
      fits = shadows[i].as_entry().shape == parameters[i].shape;
      out.items.emplace_back(Value::text(parameters[i].name), shadows[i]);
    }
    if (fits) return Value::dict(std::move(out));
    throw HintedError(ErrorCode::refused,
                      "the moving average at " + core::quote(average_->name) + " keeps no names, and its " +
                          core::format_count(shadows.size()) + " tensors do not fit the " +
                          core::format_count(parameters.size()) + " parameters of the model",
                      Hint{"{} publishes the model", {{Hint::Option::no_average}}});
  }

  Value without_counters(const Value& dict) const {
    Dict out = dict.as_dict();
    std::erase_if(out.items, [](const auto& item) {
      return is_counter(step_text(item.first)) && item.second.is(Value::Kind::tensor) &&
             item.second.as_entry().numel() == 1;
    });
    return Value::dict(std::move(out));
  }

  /// `model` with the values of `average` where it has them.
  Value fill(const Value& model, const Value& average, const std::string& place) {
    Dict out = model.as_dict();
    std::map<std::string, Value> values;
    for (const auto& [key, value] : average.as_dict().items) values.emplace(step_text(key), value);
    std::size_t replaced = 0;
    for (auto& [key, value] : out.items) {
      auto found = values.find(step_text(key));
      if (found == values.end()) continue;
      ++replaced;
      value = found->second;
      values.erase(found);
    }
    if (replaced == 0) return average;  // other names altogether: nothing to complete
    std::size_t filled = out.items.size() - replaced;
    for (const auto& [key, value] : average.as_dict().items) {
      if (values.contains(step_text(key))) out.items.emplace_back(key, value);
    }
    if (filled > 0) say("completed it by " + core::format_count(filled) + " values from " + place);
    filled_ = filled > 0;
    return Value::dict(std::move(out));
  }

  /// Averages that stand inside a state dict: ema_model.KEY beside online_model.KEY, or model_ema.KEYWITHOUTDOTS beside
  /// model.KEY. Without a wish for them they are left out.
  Value inner_average(const Value& dict) {
    bool wanted = options_.ema == "auto";
    if (has_prefix(dict, "ema_model.") && has_prefix(dict, "online_model.")) {
      say(wanted ? "took the moving average 'ema_model.' of it" : "left out the moving average 'ema_model.' of it");
      out_.is_average = wanted;
      return only_prefix(dict, wanted ? "ema_model." : "online_model.");
    }
    if (!has_prefix(dict, "model_ema.") || !has_prefix(dict, "model.")) return dict;
    std::map<std::string, Value> averages;
    Dict out = dict.as_dict();
    std::erase_if(out.items, [&](const auto& item) {
      std::string name = step_text(item.first);
      if (!name.starts_with("model_ema.")) return false;
      averages.emplace(without_dots(std::string_view(name).substr(10)), item.second);
      return true;
    });
    std::size_t replaced = 0;
    for (auto& [key, value] : out.items) {
      std::string name = step_text(key);
      auto found =
          name.starts_with("model.") ? averages.find(without_dots(std::string_view(name).substr(6))) : averages.end();
      if (!wanted || found == averages.end()) continue;
      value = found->second;
      ++replaced;
    }
    out_.is_average = replaced > 0;
    say(replaced > 0 ? "took the moving average 'model_ema.' for " + core::format_count(replaced) + " of its tensors"
                     : "left out the moving average 'model_ema.'");
    return Value::dict(std::move(out));
  }

  static bool has_prefix(const Value& dict, std::string_view prefix) {
    const auto& items = dict.as_dict().items;
    return std::any_of(items.begin(), items.end(),
                       [&](const auto& item) { return step_text(item.first).starts_with(prefix); });
  }

  static Value only_prefix(const Value& dict, const std::string& prefix) {
    Dict out;
    out.type = dict.as_dict().type;
    for (const auto& [key, value] : dict.as_dict().items) {
      std::string name = step_text(key);
      if (name.starts_with(prefix)) out.items.emplace_back(Value::text(name.substr(prefix.size())), value);
    }
    return Value::dict(std::move(out));
  }

  /// Nobody else has the classes of a project, and loading an object of one runs code.
  Checkpoint without_objects(Checkpoint taken) {
    std::vector<ForeignObject> objects;
    for (ForeignObject& object : list_foreign_objects(taken.root)) {
      if (!object.is_tensor) objects.push_back(std::move(object));
    }
    for (const ForeignObject& object : objects) {
      say("left out " + core::quote(object.name) + ", which is not plain data (" + core::quote(object.symbol) + ")");
    }
    if (!objects.empty()) taken.root = drop_objects(taken.root, objects);
    return taken;
  }

  /// Tensors as state_dict() gives them: no Parameter, no gradient wanted, no class of their own.
  Checkpoint plain(Checkpoint taken) const {
    detail::EntryReplacements replaced;
    for (const NamedEntry& named : list_entries(taken.root)) {
      bool is_plain = !named.entry->parameter && named.entry->python_class.empty();
      if (is_plain && !named.entry->requires_grad) continue;
      auto entry = std::make_shared<Entry>(*named.entry);
      entry->parameter = false;
      entry->requires_grad = false;
      entry->attributes = is_plain ? entry->attributes : Value();
      entry->python_class.clear();
      replaced.replace(named.entry, std::move(entry));
    }
    taken.root = replaced.apply(taken.root);
    return taken;
  }

  Checkpoint changed_type(const Checkpoint& taken) {
    if (!options_.to) return taken;
    CastReport report;
    Checkpoint out =
        cast(taken, {.to = *options_.to, .keep = options_.keep, .keep_norms = options_.keep_norms}, &report);
    say("cast " + core::format_count(report.changed) + " tensors to " + std::string(core::name(*options_.to)) +
        (report.kept > 0 ? ", kept " + core::format_count(report.kept) : ""));
    return out;
  }

  /// Bytes of the distinct storages below a value.
  static std::uint64_t stored_bytes(const Value& value) {
    std::uint64_t bytes = 0;
    std::set<const void*> seen;
    for (const NamedEntry& named : list_entries(value)) {
      if (!named.entry->bytes || !seen.insert(storage_identity(*named.entry)).second) continue;
      bytes += named.entry->view ? named.entry->view->storage->bytes->size() : named.entry->bytes->size();
    }
    return bytes;
  }

  bool is_at_or_above(const std::string& top, const WeightsRef& weights) const {
    return weights.name == top || weights.name.starts_with(top + ".");
  }

  void count_parts() {
    bool whole = out_.source.empty() || !file_.root.is(Value::Kind::dict);
    if (whole) {
      out_.parts.push_back({"(the file)", "published", list_entries(file_.root).size(), stored_bytes(file_.root)});
      return;
    }
    std::string other;
    for (const auto& [key, value] : file_.root.as_dict().items) {
      PublishPart part{step_text(key), "left out", list_entries(value).size(), stored_bytes(value)};
      if (part.tensors == 0) {
        other += (other.empty() ? "" : ", ") + part.name;
        continue;
      }
      if (average_ != nullptr && is_at_or_above(part.name, *average_)) {
        part.fate = "published (moving average)";
      } else if (average_ != nullptr && filled_ && is_at_or_above(part.name, *model_)) {
        part.fate = "used to complete it";
      } else if (average_ == nullptr && is_at_or_above(part.name, *model_)) {
        part.fate = out_.is_average ? "published (moving average)" : "published";
      }
      out_.parts.push_back(std::move(part));
    }
    if (!other.empty()) say("left out the plain values " + other);
  }

  const Checkpoint& file_;
  const PublishOptions& options_;
  std::optional<WeightsRef> model_;
  const WeightsRef* average_ = nullptr;
  bool filled_ = false;
  Publication out_;
};

struct Found {
  bool nan = false;
  bool infinite = false;
};

/// Looks at every value in single precision or better.
Found look_for_non_finite(const Entry& entry) {
  Found found;
  bool complex = core::is_complex(entry.dtype);
  core::DType wide = complex ? core::DType::c128 : core::DType::f64;
  SourcePtr values = cast_source(entry.bytes, entry.dtype, wide);
  for_each_part(*values, [&](Bytes part) {
    for (std::size_t at = 0; at + sizeof(double) <= part.size(); at += sizeof(double)) {
      auto value = core::load_le<double>(part.data() + at);
      found.nan |= std::isnan(value);
      found.infinite |= std::isinf(value);
    }
  });
  return found;
}

bool may_be_non_finite(const Entry& entry) {
  return entry.bytes && can_cast(entry.dtype) && (core::is_floating(entry.dtype) || core::is_complex(entry.dtype));
}

}  // namespace

Publication publish(const Checkpoint& checkpoint, const PublishOptions& options) {
  return Publisher(checkpoint, options).run();
}

NonFinite find_non_finite(const Publication& publication, const Progress& progress) {
  std::map<std::string, EntryPtr> before;
  for (const NamedEntry& named : list_entries(publication.uncast.root)) before.emplace(named.name, named.entry);
  NonFinite out;
  std::uint64_t done = 0;
  for (const NamedEntry& named : list_entries(publication.checkpoint.root)) {
    done += named.entry->byte_size();
    if (progress) progress(done, publication.bytes_after);
    if (!may_be_non_finite(*named.entry)) continue;
    Found found = core::with_context(core::quote(named.name), [&] { return look_for_non_finite(*named.entry); });
    if (found.nan) out.nan.push_back(named.name);
    if (!found.infinite) continue;
    EntryPtr old = before.at(named.name);
    bool was = old == named.entry || (may_be_non_finite(*old) && look_for_non_finite(*old).infinite);
    (was ? out.infinite : out.overflowed).push_back(named.name);
  }
  return out;
}

}  // namespace ckpt
