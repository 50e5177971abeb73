#include "libckpt/transform/nested_optimizer.h"

#include <bit>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/state_dicts.h"
#include "libckpt/transform/tree_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kState = "state.";
constexpr std::string_view kGroups = "param_groups.";

void add(Dict& dict, std::string_view key, Value value) {
  dict.items.emplace_back(Value::text(std::string(key)), std::move(value));
}

/// Equal for equal settings; what is neither a number, text nor a sequence of them is equal to itself alone.
void append_text(std::string& out, const Value& value) {
  out += static_cast<char>('a' + static_cast<int>(value.kind()));
  if (value.is(Value::Kind::boolean)) out += value.as_boolean() ? '1' : '0';
  if (value.is(Value::Kind::integer)) out += std::to_string(value.as_integer());
  if (value.is(Value::Kind::real)) out += std::to_string(std::bit_cast<std::uint64_t>(value.as_real()));
  if (value.is(Value::Kind::text)) out += std::to_string(value.as_text().size()) + ":" + value.as_text();
  if (value.is_sequence()) {
    for (const Value& item : value.as_list()) append_text(out, item);
    out += ')';
  } else if (!value.is(Value::Kind::text) && value.identity() != nullptr) {
    out += std::to_string(reinterpret_cast<std::uintptr_t>(value.identity()));
  }
}

std::string text_of(const Dict& settings) {
  std::string out;
  for (const auto& [key, value] : settings.items) {
    append_text(out, key);
    append_text(out, value);
  }
  return out;
}

/// Puts one flat optimizer together.
class Nesting {
 public:
  Dict run(const Dict& flat) {
    for (const auto& [key, value] : flat.items) {
      std::string_view rest = key.as_text();
      if (!rest.starts_with(kGroups)) continue;
      rest.remove_prefix(kGroups.size());
      std::size_t dot = rest.rfind('.');
      add(settings_of(rest.substr(0, dot)), rest.substr(dot + 1), value);
    }
    for (const auto& [key, value] : flat.items) {
      if (key.as_text().starts_with(kState)) add_slot(std::string_view(key.as_text()).substr(kState.size()), value);
    }
    Dict out;
    add(out, "state", Value::dict(take_states()));
    add(out, "param_groups", Value::list(groups()));
    return out;
  }

 private:
  Dict& settings_of(std::string_view name) {
    auto [at, fresh] = places_.try_emplace(name, names_.size());
    if (fresh) {
      names_.push_back(name);
      settings_.emplace_back();
      states_.emplace_back();
    }
    return settings_[at->second];
  }

  void add_slot(std::string_view rest, const Value& value) {
    for (std::size_t dot = rest.rfind('.'); dot != std::string_view::npos && dot > 0; dot = rest.rfind('.', dot - 1)) {
      auto found = places_.find(rest.substr(0, dot));
      if (found != places_.end()) return add(states_[found->second], rest.substr(dot + 1), value);
    }
    throw core::Error(core::ErrorCode::corrupt,
                      "the optimizer has state " + core::quote(rest) + " of a parameter without settings");
  }

  Dict take_states() {
    Dict out;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!states_[i].items.empty()) add(out, names_[i], Value::dict(std::move(states_[i])));
    }
    return out;
  }

  Value::List groups() const {
    std::vector<std::pair<const Dict*, Value::List>> found;
    std::unordered_map<std::string, std::size_t> known;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      auto [at, fresh] = known.try_emplace(text_of(settings_[i]), found.size());
      if (fresh) found.push_back({&settings_[i], {}});
      found[at->second].second.push_back(Value::text(std::string(names_[i])));
    }
    Value::List out;
    for (auto& [settings, names] : found) {
      Dict group = *settings;
      add(group, "params", Value::list(std::move(names)));
      out.push_back(Value::dict(std::move(group)));
    }
    return out;
  }

  std::unordered_map<std::string_view, std::size_t> places_;
  std::vector<std::string_view> names_;
  std::vector<Dict> settings_;
  std::vector<Dict> states_;
};

class NestFlat final : public TreeMap {
 public:
  explicit NestFlat(std::unordered_set<const Dict*> flat) : flat_(std::move(flat)) {}

 protected:
  bool edit_dict(const Value& node, Dict& dict) override {
    if (!flat_.contains(&node.as_dict())) return false;
    dict = Nesting().run(Dict(dict));
    return true;
  }

 private:
  std::unordered_set<const Dict*> flat_;
};

}  // namespace

Checkpoint nest_optimizers(const Checkpoint& checkpoint, const std::string& at) {
  std::unordered_set<const Dict*> flat;
  for (const StateDictRef& dict : list_state_dicts(value_at(checkpoint.root, at))) {
    if (is_flat_optimizer_state(*dict.dict)) flat.insert(dict.dict);
  }
  if (flat.empty()) return checkpoint;
  Checkpoint out = checkpoint;
  out.root = NestFlat(std::move(flat)).map(checkpoint.root);
  return out;
}

}  // namespace ckpt::detail
