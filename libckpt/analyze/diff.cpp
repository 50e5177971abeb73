#include "libckpt/analyze/diff.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>

#include "libckpt/analyze/compare_bytes.h"
#include "libckpt/analyze/diff_verdict.h"
#include "libckpt/analyze/plain_values.h"
#include "libckpt/blocks/unpacked.h"
#include "libckpt/damage.h"
#include "libckpt/state_dicts.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using Kind = Difference::Kind;
using detail::ValueDifference;

std::string describe(const Entry& entry) {
  return type_name(entry) + " " + core::to_list(value_shape(entry));
}

/// Equal, where a NaN is a NaN.
bool same_value(const Value& a, const Value& b) {
  bool reals = a.is(Value::Kind::real) && b.is(Value::Kind::real);
  return a == b || (reals && std::isnan(a.as_real()) && std::isnan(b.as_real()));
}

/// Things of both sides matched by name; a name that occurs twice is matched in order.
template <class Item>
struct Matched {
  std::vector<std::pair<const Item*, const Item*>> pairs;  ///< in the order of a
  std::vector<const Item*> only_a;
  std::vector<const Item*> only_b;
  bool same_order = true;
};

template <class Item>
Matched<Item> match(const std::vector<Item>& a, const std::vector<Item>& b) {
  std::unordered_map<std::string_view, std::vector<std::size_t>> places;
  for (std::size_t i = b.size(); i-- > 0;) places[b[i].name].push_back(i);  // first place last
  std::vector<bool> used(b.size());
  Matched<Item> out;
  std::size_t last = 0;
  for (const Item& item : a) {
    auto found = places.find(item.name);
    if (found == places.end() || found->second.empty()) {
      out.only_a.push_back(&item);
      continue;
    }
    std::size_t place = found->second.back();
    found->second.pop_back();
    used[place] = true;
    out.same_order &= out.pairs.empty() || place > last;
    last = place;
    out.pairs.emplace_back(&item, &b[place]);
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    if (!used[i]) out.only_b.push_back(&b[i]);
  }
  return out;
}

/// Names without what is to be ignored at their heads, whole components only.
class Names {
 public:
  explicit Names(const std::vector<std::string>& prefixes) {
    for (std::string prefix : prefixes) {
      if (!prefix.empty() && !prefix.ends_with('.')) prefix += '.';
      if (!prefix.empty()) prefixes_.push_back(std::move(prefix));
    }
  }

  template <class Item>
  void shorten(std::vector<Item>& items) const {
    for (Item& item : items) {
      for (const std::string& prefix : prefixes_) {
        if (item.name.starts_with(prefix)) item.name.erase(0, prefix.size());
      }
    }
  }

 private:
  std::vector<std::string> prefixes_;
};

class Differ {
 public:
  Differ(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options)
      : a_(a), b_(b), options_(options), names_(options.ignore_prefixes), selection_(options.selection) {}

  DiffResult run() {
    compare_tensors();
    compare_plain_values();
    compare_metadata();
    result_.relative_norm = all_.relative_norm();
    if (options_.verdicts) add_verdicts();
    return std::move(result_);
  }

 private:
  void add(Difference difference, bool counts) {
    (counts ? result_.differences : result_.notes).push_back(std::move(difference));
  }

  void add_verdicts() {
    detail::FoundVerdicts found = detail::find_verdicts({a_, b_, seen_, result_, options_.threads});
    result_.verdicts = std::move(found.texts);
    for (Difference& d : result_.differences) {
      auto says = found.of_tensor.find(d.name);
      bool same = d.kind != Kind::location && d.kind != Kind::order && d.kind != Kind::metadata;
      if (d.tensor && same && says != found.of_tensor.end()) d.verdict = says->second;
    }
  }

  std::vector<NamedEntry> entries_of(const Checkpoint& checkpoint) const {
    std::vector<NamedEntry> out = list_entries(checkpoint.root);
    names_.shorten(out);
    if (options_.selection.empty()) return out;
    std::erase_if(out, [this](const NamedEntry& e) { return !selection_.contains(e.name, *e.entry); });
    return out;
  }

  std::vector<NamedValue> values_of(const Checkpoint& checkpoint) const {
    std::vector<NamedValue> out = list_plain_values(checkpoint.root);
    names_.shorten(out);
    if (options_.selection.empty()) return out;
    std::erase_if(out, [this](const NamedValue& v) { return !selection_.contains_value(v.name); });
    return out;
  }

  void compare_tensors() {
    seen_.in_a = entries_of(a_);
    seen_.in_b = entries_of(b_);
    Matched<NamedEntry> matched = match(seen_.in_a, seen_.in_b);
    for (const NamedEntry* e : matched.only_a) {
      add({Kind::only_in_a, e->name, describe(*e->entry), ""}, options_.structure);
      seen_.only_a.push_back(*e);
    }
    for (const NamedEntry* e : matched.only_b) {
      add({Kind::only_in_b, e->name, "", describe(*e->entry)}, options_.structure);
      seen_.only_b.push_back(*e);
    }
    for (const auto& [x, y] : matched.pairs) {
      seen_.pairs.push_back({*x, *y, {}});
      total_ += compared_side(*x, *y)->byte_size();
    }
    compare_values();
    for (detail::SeenPair& pair : seen_.pairs) note_pair(pair);
    if (!matched.same_order) {
      add({Kind::order, "tensors", seen_.in_a.front().name + " first", seen_.in_b.front().name + " first"},
          options_.order);
    }
    tick(total_ - done_);
  }

  /// Both files have a tensor of the name that an error gives: it is said which of them is damaged.
  template <class Body>
  auto with_file_at_fault(Body body) const {
    try {
      return body();
    } catch (Error& error) {
      if (!add_file_at_fault(error, a_, seen_.in_a)) add_file_at_fault(error, b_, seen_.in_b);
      throw;
    }
  }

  /// What is compared of `one`: blocks beside blocks of their type as they are, all others by their values.
  static EntryPtr compared_side(const NamedEntry& one, const NamedEntry& other) {
    return type_name(*one.entry) == type_name(*other.entry) ? one.entry : detail::with_values(one.entry);
  }

  void compare_values() {
    compare_pairs(
        compared_side, [](const detail::SeenPair&) { return true; }, [this](std::uint64_t n) { tick(n); });
    result_.bytes_compared = done_;
    // By how much blocks of one type differ.
    compare_pairs([](const NamedEntry& one, const NamedEntry&) { return detail::with_values(one.entry); },
                  [](const detail::SeenPair& pair) {
                    return pair.a.entry->blocks && pair.values && !pair.values->numbers && pair.values->differing > 0;
                  },
                  {});
  }

  /// Compares the sides of those pairs that `is_meant`. Other blocks of equal values stay a difference, of no size.
  void compare_pairs(const std::function<EntryPtr(const NamedEntry&, const NamedEntry&)>& side,
                     const std::function<bool(const detail::SeenPair&)>& is_meant,
                     const std::function<void(std::uint64_t)>& ticks) {
    std::vector<detail::ValuePair> pairs;
    std::vector<detail::SeenPair*> places;
    std::vector<EntryPtr> held;
    for (detail::SeenPair& pair : seen_.pairs) {
      if (!is_meant(pair)) continue;
      EntryPtr a = held.emplace_back(side(pair.a, pair.b));
      EntryPtr b = held.emplace_back(side(pair.b, pair.a));
      if (!detail::are_comparable(*a, *b)) continue;
      pairs.push_back({a.get(), b.get(), pair.a.name});
      places.push_back(&pair);
    }
    detail::CompareOptions how{{options_.rtol, options_.atol}, options_.threads, ticks};
    std::vector<ValueDifference> found = with_file_at_fault([&] { return detail::compare_values(pairs, how); });
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (!places[k]->values || found[k].differing > 0) {
        places[k]->values = found[k];
      } else if (!how.tolerance.exact()) {
        places[k]->values->beyond = 0;
      }
    }
  }

  void note_pair(const detail::SeenPair& pair) {
    const Entry& x = *pair.a.entry;
    const Entry& y = *pair.b.entry;
    ++result_.tensors_compared;
    bool equal = true;
    if (x.location != y.location) add({Kind::location, pair.a.name, x.location, y.location}, options_.locations);
    if (type_name(x) != type_name(y)) {
      Difference difference{Kind::dtype, pair.a.name, type_name(x), type_name(y)};
      if (pair.values) set_numbers(difference, x, *pair.values);
      add(std::move(difference), options_.structure);
      equal = false;
    } else if (pair.values && pair.values->beyond > 0) {
      Difference difference{Kind::values, pair.a.name, "", ""};
      set_numbers(difference, x, *pair.values);
      add(std::move(difference), options_.values);
      equal = false;
    }
    if (value_shape(x) != value_shape(y)) {
      add({Kind::shape, pair.a.name, core::to_list(value_shape(x)), core::to_list(value_shape(y))}, options_.structure);
      equal = false;
    }
    if ((x.bytes == nullptr) != (y.bytes == nullptr)) {
      auto text = [](const Entry& e) { return e.bytes ? "values" : "no values"; };
      add({Kind::values, pair.a.name, text(x), text(y)}, options_.values);
      equal = false;
    }
    result_.tensors_equal += equal ? 1 : 0;
  }

  void set_numbers(Difference& difference, const Entry& entry, const ValueDifference& found) {
    difference.elements = entry.numel();
    difference.differing = found.differing;
    difference.beyond = found.beyond;
    if (!found.numbers) return;
    difference.max_difference = found.max_difference;
    difference.max_relative = found.max_relative;
    difference.cosine = found.cosine();
    difference.relative_norm = found.relative_norm();
    difference.nans_a = found.nans_a;
    difference.nans_b = found.nans_b;
    if (found.differing > 0) all_.merge(found);
    if (difference.kind == Kind::values && core::is_floating(entry.dtype)) difference.max_ulp = found.max_ulp;
  }

  void compare_plain_values() {
    std::vector<NamedValue> in_a = values_of(a_);
    std::vector<NamedValue> in_b = values_of(b_);
    Matched<NamedValue> matched = match(in_a, in_b);
    for (const NamedValue* v : matched.only_a) {
      add({Kind::only_in_a, v->name, value_text(v->value), "", false}, options_.plain);
    }
    for (const NamedValue* v : matched.only_b) {
      add({Kind::only_in_b, v->name, "", value_text(v->value), false}, options_.plain);
    }
    for (const auto& [x, y] : matched.pairs) {
      if (same_value(x->value, y->value)) continue;
      add({Kind::plain_value, x->name, value_text(x->value), value_text(y->value), false}, options_.plain);
    }
  }

  void compare_metadata() {
    std::vector<NamedValue> in_a = metadata_of(a_);
    std::vector<NamedValue> in_b = metadata_of(b_);
    Matched<NamedValue> matched = match(in_a, in_b);
    for (const NamedValue* v : matched.only_a) {
      add({Kind::metadata, v->name, value_text(v->value), "nothing", false}, options_.metadata);
    }
    for (const NamedValue* v : matched.only_b) {
      add({Kind::metadata, v->name, "nothing", value_text(v->value), false}, options_.metadata);
    }
    for (const auto& [x, y] : matched.pairs) {
      if (x->value == y->value) continue;
      add({Kind::metadata, x->name, value_text(x->value), value_text(y->value), false}, options_.metadata);
    }
  }

  static std::vector<NamedValue> metadata_of(const Checkpoint& checkpoint) {
    std::vector<NamedValue> out;
    for (const auto& [key, text] : checkpoint.metadata) out.push_back({"metadata " + key, Value::text(text)});
    for (const StateDictRef& dict : list_state_dicts(checkpoint.root)) {
      for (const auto& [module, version] : module_versions(*dict.dict)) {
        std::string where = dict.name + (dict.name.empty() || module.empty() ? "" : ".") + module;
        out.push_back({"version of " + (where.empty() ? "the top module" : where), Value::integer(version)});
      }
    }
    return out;
  }

  void tick(std::uint64_t bytes) {
    done_ += bytes;
    if (options_.progress) options_.progress(done_, total_);
  }

  const Checkpoint& a_;
  const Checkpoint& b_;
  const DiffOptions& options_;
  Names names_;
  SelectionMatcher selection_;
  detail::Seen seen_;
  DiffResult result_;
  ValueDifference all_;  ///< of all tensors whose numbers differ
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace

std::string_view name(Difference::Kind kind) {
  switch (kind) {
    case Kind::only_in_a:
      return "only_in_a";
    case Kind::only_in_b:
      return "only_in_b";
    case Kind::dtype:
      return "dtype";
    case Kind::shape:
      return "shape";
    case Kind::values:
      return "values";
    case Kind::plain_value:
      return "plain_value";
    case Kind::order:
      return "order";
    case Kind::metadata:
      return "metadata";
    case Kind::location:
      return "location";
  }
  return "?";
}

DiffResult diff(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options) {
  if (options.rules.empty()) return Differ(a, b, options).run();
  return Differ(apply_rules(a, options.rules), b, options).run();
}

}  // namespace ckpt
