#include "libckpt/analyze/diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>

#include "libckpt/analyze/compare_bytes.h"
#include "libckpt/analyze/plain_values.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using Kind = Difference::Kind;

std::string describe(const Entry& entry) {
  return std::string(core::name(entry.dtype)) + " " + core::to_list(entry.shape);
}

bool has_flags(const Entry& entry) {
  return entry.conjugate || entry.negative;
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

class Differ {
 public:
  Differ(const Checkpoint& a, const Checkpoint& b, const DiffOptions& options) : a_(a), b_(b), options_(options) {}

  DiffResult run() {
    compare_tensors();
    compare_plain_values();
    compare_metadata();
    return std::move(result_);
  }

 private:
  void add(Difference difference, bool counts) {
    (counts ? result_.differences : result_.notes).push_back(std::move(difference));
  }

  void compare_tensors() {
    std::vector<NamedEntry> in_a = list_entries(a_.root);
    std::vector<NamedEntry> in_b = list_entries(b_.root);
    Matched<NamedEntry> matched = match(in_a, in_b);
    for (const NamedEntry* e : matched.only_a) add({Kind::only_in_a, e->name, describe(*e->entry), ""}, true);
    for (const NamedEntry* e : matched.only_b) add({Kind::only_in_b, e->name, "", describe(*e->entry)}, true);
    for (const auto& [x, y] : matched.pairs) total_ += x->entry->byte_size();
    for (const auto& [x, y] : matched.pairs) {
      core::with_context(core::quote(x->name), [&, left = x, right = y] { compare_tensor(*left, *right); });
    }
    if (!matched.same_order) {
      add({Kind::order, "tensors", in_a.front().name + " first", in_b.front().name + " first"}, options_.order);
    }
  }

  void compare_tensor(const NamedEntry& a, const NamedEntry& b) {
    const Entry& x = *a.entry;
    const Entry& y = *b.entry;
    ++result_.tensors_compared;
    if (x.location != y.location) add({Kind::location, a.name, x.location, y.location}, options_.locations);
    std::size_t before = result_.differences.size();
    if (x.dtype != y.dtype) {
      add({Kind::dtype, a.name, std::string(core::name(x.dtype)), std::string(core::name(y.dtype))}, true);
    }
    if (x.shape != y.shape) add({Kind::shape, a.name, core::to_list(x.shape), core::to_list(y.shape)}, true);
    bool comparable = result_.differences.size() == before;
    if (comparable) comparable = compare_presence(a, b);
    if (comparable) compare_bytes(a, b);
    if (result_.differences.size() == before) ++result_.tensors_equal;
    if (!comparable) tick(x.byte_size());
  }

  /// False when a side has no bytes (a tensor on "meta").
  bool compare_presence(const NamedEntry& a, const NamedEntry& b) {
    if ((a.entry->bytes == nullptr) != (b.entry->bytes == nullptr)) {
      auto text = [](const NamedEntry& e) { return e.entry->bytes ? "values" : "no values"; };
      add({Kind::values, a.name, text(a), text(b)}, true);
    }
    return a.entry->bytes != nullptr && b.entry->bytes != nullptr;
  }

  void compare_bytes(const NamedEntry& a, const NamedEntry& b) {
    auto [known, fresh] = compared_.try_emplace({a.entry->bytes.get(), b.entry->bytes.get(), a.entry->dtype});
    if (fresh || has_flags(*a.entry) || has_flags(*b.entry)) {
      known->second = detail::compare_values(*a.entry, *b.entry, [this](std::uint64_t bytes) { tick(bytes); });
      result_.bytes_compared += a.entry->byte_size();
    } else {
      tick(a.entry->byte_size());
    }
    const detail::ValueDifference& found = known->second;
    if (found.differing == 0) return;
    add({Kind::values, a.name, "", "", a.entry->numel(), found.differing, found.max_difference}, true);
  }

  void compare_plain_values() {
    std::vector<NamedValue> in_a = list_plain_values(a_.root);
    std::vector<NamedValue> in_b = list_plain_values(b_.root);
    Matched<NamedValue> matched = match(in_a, in_b);
    for (const NamedValue* v : matched.only_a) add({Kind::only_in_a, v->name, value_text(v->value), ""}, true);
    for (const NamedValue* v : matched.only_b) add({Kind::only_in_b, v->name, "", value_text(v->value)}, true);
    for (const auto& [x, y] : matched.pairs) {
      if (same_value(x->value, y->value)) continue;
      add({Kind::plain_value, x->name, value_text(x->value), value_text(y->value)}, true);
    }
  }

  void compare_metadata() {
    std::vector<NamedValue> in_a = metadata_of(a_);
    std::vector<NamedValue> in_b = metadata_of(b_);
    Matched<NamedValue> matched = match(in_a, in_b);
    for (const NamedValue* v : matched.only_a) {
      add({Kind::metadata, v->name, value_text(v->value), "nothing"}, options_.metadata);
    }
    for (const NamedValue* v : matched.only_b) {
      add({Kind::metadata, v->name, "nothing", value_text(v->value)}, options_.metadata);
    }
    for (const auto& [x, y] : matched.pairs) {
      if (same_value(x->value, y->value)) continue;
      add({Kind::metadata, x->name, value_text(x->value), value_text(y->value)}, options_.metadata);
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
  DiffResult result_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
  /// Tied tensors are compared once.
  std::map<std::tuple<const ByteSource*, const ByteSource*, core::DType>, detail::ValueDifference> compared_;
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
  return Differ(a, b, options).run();
}

}  // namespace ckpt
