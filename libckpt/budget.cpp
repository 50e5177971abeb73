#include "libckpt/budget.h"

#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/checkpoint.h"
#include "libckpt/io/distinct.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/tensor_row.h"
#include "libckpt/transform/entry_map.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

std::uint64_t add(std::uint64_t a, std::uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

std::uint64_t multiply(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/// Adds, and returns the sum.
std::uint64_t raise(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
  std::uint64_t now = counter;
  while (!counter.compare_exchange_weak(now, add(now, by))) {
  }
  return add(now, by);
}

/// What a part of the tree unfolds to when every reference counts; saturating.
struct Unfolded {
  std::uint64_t values = 0;
  std::uint64_t weight = 0;  ///< of the values, a container counting as much as it takes
  std::uint64_t tensors = 0;
  std::uint64_t names = 0;  ///< bytes of the names of all values, from here down, and of texts
};

/// Bytes of a plain value beside what each takes. Many references may lead to one text, and each is printed and
/// compared.
std::uint64_t text_size(const Value& value) {
  if (value.is(Value::Kind::text)) return value.as_text().size();
  bool bytes = value.is(Value::Kind::bytes) || value.is(Value::Kind::bytearray) || value.is(Value::Kind::big_integer);
  return bytes ? value.as_bytes().size() : 0;
}

/// `all` in its order, each once.
template <class T>
std::vector<const T*> without_repeats(std::vector<const T*> all) {
  if (detail::all_differ(all)) return all;
  std::unordered_set<const T*> seen;
  std::erase_if(all, [&](const T* one) { return !seen.insert(one).second; });
  return all;
}

/// One walk over the distinct nodes of a tree. Its depth is bounded by whoever built the tree.
class TreeLook {
 public:
  Unfolded look(const Value& value) {
    if (value.is(Value::Kind::tensor)) {
      entries_.push_back(&value.as_entry());
      return {1, 1, 1, 0};
    }
    if (!value.is_sequence() && !value.is(Value::Kind::dict) && !value.is(Value::Kind::object)) {
      return {1, 1, 0, text_size(value)};
    }
    if (auto known = known_.find(value.identity()); known != known_.end()) return known->second;
    Unfolded sum{1, kContainer, 0, 0};
    if (value.is_sequence()) {
      look_list(value.as_list(), sum);
    } else if (value.is(Value::Kind::dict)) {
      look_items(value.as_dict().items, sum);
      look_below(value.as_dict().attributes, 0, sum);
    } else {
      look_object(value.as_object(), sum);
    }
    known_.emplace(value.identity(), sum);
    return sum;
  }

  /// What look() would add for items of the dict that gave `sum`.
  static void add_row(const detail::TensorRow& row, Unfolded& sum) {
    sum.values = add(sum.values, row.count);
    sum.weight = add(sum.weight, row.count);
    sum.tensors = add(sum.tensors, row.count);
    sum.names = add(sum.names, add(row.name_bytes, multiply(row.count, kStep)));
  }

  /// In the order of the tree, each once.
  std::vector<const Entry*> take_entries() { return without_repeats(std::move(entries_)); }

 private:
  static constexpr std::uint64_t kStep = 24;      ///< bytes that a step of a path takes beside its text
  static constexpr std::uint64_t kContainer = 4;  ///< plain values that take as much as an empty dict

  void look_below(const Value& child, std::uint64_t name, Unfolded& sum) {
    Unfolded below = look(child);
    sum.values = add(sum.values, below.values);
    sum.weight = add(sum.weight, below.weight);
    sum.tensors = add(sum.tensors, below.tensors);
    sum.names = add(add(sum.names, below.names), multiply(below.values, kStep + name));
  }

  void look_list(const Value::List& items, Unfolded& sum) {
    for (const Value& item : items) look_below(item, 0, sum);
  }

  void look_items(const std::vector<std::pair<Value, Value>>& items, Unfolded& sum) {
    for (const auto& [key, child] : items) look_below(child, key.is(Value::Kind::text) ? key.as_text().size() : 0, sum);
  }

  void look_object(const Object& object, Unfolded& sum) {
    look_below(object.args, 0, sum);
    look_below(object.kwargs, 0, sum);
    look_below(object.state, 0, sum);
    look_list(object.appended, sum);
    look_items(object.items, sum);
  }

  std::unordered_map<const void*, Unfolded> known_;
  std::vector<const Entry*> entries_;
};

/// A tensor that can be listed but whose values are too many to be read.
class RefusedValues final : public ByteSource {
 public:
  RefusedValues(SourcePtr values, HintedError refusal) : values_(std::move(values)), refusal_(std::move(refusal)) {}
  std::uint64_t size() const override { return values_->size(); }
  void read(std::uint64_t /*offset*/, MutableBytes out) const override {
    if (!out.empty()) throw HintedError(refusal_);
  }
  void require_unchanged() const override { values_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { values_->visit_checked(see); }

 private:
  SourcePtr values_;
  HintedError refusal_;
};

/// Counts the bytes of every distinct source, and finds those for which nothing is left.
class LogicalBytes {
 public:
  LogicalBytes(const ByteSource& file, Budget& budget) : budget_(budget) {
    if (std::optional<FileRange> range = file.file_range()) files_.insert(range->fd);
    far_.insert(detail::far_file(file));
  }

  void take(const std::vector<const Entry*>& entries) {
    std::vector<const ByteSource*> sources;
    sources.reserve(entries.size());
    for (const Entry* entry : entries) {
      add_files(*entry);
      if (entry->view && entry->view->storage) sources.push_back(entry->view->storage->bytes.get());
      sources.push_back(entry->bytes.get());
    }
    std::erase(sources, nullptr);
    for (const ByteSource* source : without_repeats(std::move(sources))) {
      if (!budget_.take_logical(source->size())) refused_.insert(source);
    }
  }

  bool all_fit() const { return refused_.empty(); }
  bool is_refused(const SourcePtr& source) const { return refused_.contains(source.get()); }

 private:
  /// Shards and their kin: files beside the one that was opened.
  void add_files(const Entry& entry) {
    const SourcePtr& source = entry.view && entry.view->storage ? entry.view->storage->bytes : entry.bytes;
    if (source == nullptr) return;
    std::optional<FileRange> range = source->file_range();
    if (range && (range->fd == last_file_ || files_.contains(range->fd))) {
      last_file_ = range->fd;
      return;
    }
    const ByteSource* far = detail::far_file(*source);
    if (far != nullptr && far_.insert(far).second) budget_.add_disk(far->size());
    if (!range) return;
    files_.insert(range->fd);
    struct stat status {};
    if (::fstat(range->fd, &status) == 0) budget_.add_disk(static_cast<std::uint64_t>(status.st_size));
  }

  Budget& budget_;
  std::unordered_set<int> files_;
  int last_file_ = -1;  ///< mostly that of the next tensor
  std::unordered_set<const ByteSource*> far_;
  std::unordered_set<const ByteSource*> refused_;
};

/// The tree with entries that refuse to be read in place of those that do not fit.
class Refusals {
 public:
  Refusals(const LogicalBytes& logical, const Budget& budget) : logical_(logical), budget_(budget) {}

  Value apply(const Value& root) {
    detail::EntryReplacements replaced;
    std::unordered_set<const Entry*> seen;
    for (const NamedEntry& named : list_entries(root)) {
      if (!seen.insert(named.entry.get()).second) continue;
      bool storage = named.entry->view && named.entry->view->storage && is_refused(named.entry->view->storage->bytes);
      if (!storage && !is_refused(named.entry->bytes)) continue;
      auto entry = std::make_shared<Entry>(*named.entry);
      entry->bytes = refusing(named.name, entry->bytes);
      if (storage) entry->view->storage = refusing_storage(named.name, entry->view->storage);
      replaced.replace(named.entry, std::move(entry));
    }
    return replaced.apply(root);
  }

 private:
  bool is_refused(const SourcePtr& source) const { return source != nullptr && logical_.is_refused(source); }

  /// The same for the same source: that is what ties tensors.
  SourcePtr refusing(const std::string& name, const SourcePtr& source) {
    SourcePtr& made = sources_[source.get()];
    if (made == nullptr) {
      made = std::make_shared<RefusedValues>(source, budget_.logical_refusal(name, source->size()));
    }
    return made;
  }

  std::shared_ptr<const Storage> refusing_storage(const std::string& name, const std::shared_ptr<const Storage>& old) {
    std::shared_ptr<const Storage>& made = storages_[old.get()];
    if (made == nullptr) {
      made = std::make_shared<const Storage>(Storage{old->dtype, refusing(name, old->bytes), old->location});
    }
    return made;
  }

  const LogicalBytes& logical_;
  const Budget& budget_;
  std::unordered_map<const ByteSource*, SourcePtr> sources_;
  std::unordered_map<const Storage*, std::shared_ptr<const Storage>> storages_;
};

}  // namespace

std::uint64_t Budget::allowed(const Allowance& allowance) const {
  double factor = allowance.per_byte * static_cast<double>(limits_.max_expansion) / 100;
  double more = static_cast<double>(disk_.load()) * factor;
  return add(allowance.free, more < 1e18 ? static_cast<std::uint64_t>(more) : 1'000'000'000'000'000'000U);
}

void Budget::refuse(const std::string& claim, std::uint64_t allowed, const char* unit) const {
  throw HintedError(ErrorCode::refused,
                    claim + " more than " + core::format_count(allowed) + " " + unit +
                        ", which is not accepted from a file of " + core::format_size(disk_),
                    Hint{"{} allows more", {{Hint::Option::max_expansion}}});
}

Limits Budget::limits(Limits given) const {
  constexpr std::uint64_t kOpcodes = 4;  ///< of a value: itself, a mark, its place in the memo, what takes it in
  if (whole_packed_) {
    given.max_pickle_opcodes = std::min(given.max_pickle_opcodes, multiply(kOpcodes, allowed(kValueAllowance)));
  }
  return given;
}

void Budget::take_values(std::uint64_t count) {
  require_values(raise(values_, count));
}

void Budget::require_values(std::uint64_t count) const {
  std::uint64_t most = allowed(kValueAllowance);
  if (count > most) refuse("its lists and dicts unfold to", most, "values");
}

void Budget::take_tensors(std::uint64_t count) {
  std::uint64_t most = allowed(kTensorAllowance);
  if (raise(tensors_, count) > most) refuse("it lists", most, "tensors");
}

void Budget::take_names(std::uint64_t bytes) {
  std::uint64_t most = allowed(kNameAllowance);
  if (raise(names_, bytes) > most) refuse("the full names and the texts of its values would take", most, "bytes");
}

void Budget::take_decoded(const std::string& what, std::uint64_t bytes) {
  std::uint64_t most = allowed(kDecodedAllowance);
  if (raise(decoded_, bytes) > most) refuse(what + " would inflate to", most, "bytes");
}

bool Budget::take_logical(std::uint64_t bytes) {
  std::uint64_t most = add(packed_, std::max(limits_.expansion_floor, multiply(limits_.max_expansion, disk_)));
  std::uint64_t now = logical_;
  do {
    if (bytes > most || now > most - bytes) return false;
  } while (!logical_.compare_exchange_weak(now, now + bytes));
  return true;
}

HintedError Budget::logical_refusal(const std::string& name, std::uint64_t bytes) const {
  std::string most = core::format_size(limits_.expansion_floor);
  return {ErrorCode::refused,
          "the values of tensor " + core::quote(name) + " would be " + core::format_size(bytes) +
              " where the file has only " + core::format_size(disk_) + " (more than " +
              std::to_string(limits_.max_expansion) + " times as much, and more than " + most +
              " in all); it can be listed but is not read",
          Hint{"store it without expand(), or allow more with {}", {{Hint::Option::max_expansion}}}};
}

Value within_budget(const Value& root, const ByteSource& file, Budget& budget) {
  return detail::within_budget(root, {}, file, budget);
}

Value detail::within_budget(const Value& root, const TensorRow& row, const ByteSource& file, Budget& budget) {
  TreeLook tree;
  Unfolded all = tree.look(root);
  TreeLook::add_row(row, all);
  budget.take_values(all.weight);
  budget.take_tensors(all.tensors);
  budget.take_names(all.names);
  LogicalBytes logical(file, budget);
  logical.take(tree.take_entries());
  return logical.all_fit() ? root : Refusals(logical, budget).apply(root);
}

}  // namespace ckpt
