#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <set>
#include <unordered_map>

#include "libckpt/children.h"
#include "libckpt/io/unit_source.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/entry_map.h"
#include "libckpt/transform/lora.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;

constexpr std::size_t kRowBytes = 1 << 20;  ///< of the rows that are computed at a time
constexpr std::size_t kHeldFactors = 4;     ///< pairs A, B in memory
constexpr std::size_t kNamesInMessages = 3;

template <class T>
constexpr DType kTypeOf = sizeof(T) == 8 ? DType::f64 : DType::f32;

template <class T>
std::vector<T> numbers_of(const Entry& entry) {
  const core::ByteVector bytes = read_all(*entry.bytes);
  std::vector<T> numbers(entry.numel());
  cast_values(bytes, entry.dtype, std::as_writable_bytes(std::span(numbers)), kTypeOf<T>);
  return numbers;
}

template <class T>
std::vector<T> transpose(const std::vector<T>& matrix, std::size_t rows) {
  const std::size_t columns = matrix.size() / rows;
  std::vector<T> out(matrix.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) out[j * rows + i] = matrix[i * columns + j];
  }
  return out;
}

/// The change of a weight as it is stored: row i is the sum over k of left[i, k] * right[k, :].
template <class T>
struct Factors {
  std::vector<T> left;
  std::vector<T> right;
  std::vector<T> lengths;  ///< of the rows of the result; empty without DoRA
};

template <class T>
std::shared_ptr<const Factors<T>> read_factors(const LoraTarget& target, bool transposed) {
  const auto rank = static_cast<std::size_t>(target.rank);
  auto factors = std::make_shared<Factors<T>>();
  std::vector<T> a = numbers_of<T>(*target.a);
  std::vector<T> b = numbers_of<T>(*target.b);
  factors->left = transposed ? transpose(a, rank) : std::move(b);
  factors->right = transposed ? transpose(b, b.size() / rank) : std::move(a);
  if (target.magnitude != nullptr) factors->lengths = numbers_of<T>(*target.magnitude);
  return factors;
}

/// The factors that were asked for last.
template <class T>
class FactorCache {
 public:
  std::shared_ptr<const Factors<T>> get(const LoraTarget& target, bool transposed) {
    const std::lock_guard lock(mutex_);
    auto found = std::ranges::find(held_, &target, [](const auto& pair) { return pair.first; });
    if (found != held_.end()) return found->second;
    auto factors = read_factors<T>(target, transposed);
    if (held_.size() == kHeldFactors) held_.erase(held_.begin());
    held_.emplace_back(&target, factors);
    return factors;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<const LoraTarget*, std::shared_ptr<const Factors<T>>>> held_;
};

/// What the sources of one merge share.
struct Merge {
  LoraAdapter adapter;
  double strength = 1;
  FactorCache<float> singles;
  FactorCache<double> doubles;

  template <class T>
  FactorCache<T>& cache() {
    if constexpr (sizeof(T) == 8) {
      return doubles;
    } else {
      return singles;
    }
  }
};

/// The changed weight, computed a few rows at a time.
template <class T>
class MergedSource final : public detail::UnitSource {
 public:
  MergedSource(SourcePtr weight, DType dtype, std::size_t rows, std::shared_ptr<Merge> merge, const LoraTarget& target,
               bool transposed)
      : UnitSource(rows, weight->size() / rows, kRowBytes * rows / weight->size()),
        weight_(std::move(weight)),
        dtype_(dtype),
        columns_(weight_->size() * 8 / static_cast<std::uint64_t>(core::bit_width(dtype)) / rows),
        merge_(std::move(merge)),
        target_(target),
        transposed_(transposed) {}

  void require_unchanged() const override {
    weight_->require_unchanged();
    target_.a->bytes->require_unchanged();
    target_.b->bytes->require_unchanged();
  }
  void visit_checked(const CheckedVisitor& see) const override {
    weight_->visit_checked(see);
    target_.a->bytes->visit_checked(see);
    target_.b->bytes->visit_checked(see);
  }

 private:
  void compute(std::uint64_t first, MutableBytes rows) const override {
    const std::shared_ptr<const Factors<T>> held = merge_->cache<T>().get(target_, transposed_);
    const Factors<T>& factors = *held;
    weight_->read(first * unit(), rows);
    const std::size_t count = rows.size() / unit();
    std::vector<T> values(count * columns_);
    std::vector<T> delta(columns_);
    cast_values(rows, dtype_, std::as_writable_bytes(std::span(values)), kTypeOf<T>);
    for (std::size_t i = 0; i < count; ++i) {
      std::span<T> row(values.data() + i * columns_, columns_);
      sum_delta(first + i, factors, delta);
      const T scale = static_cast<T>(target_.scale * merge_->strength);
      for (std::size_t j = 0; j < columns_; ++j) row[j] += delta[j] * scale;
      if (!factors.lengths.empty()) give_length(row, factors.lengths[first + i]);
    }
    cast_values(std::as_bytes(std::span(values)), kTypeOf<T>, rows, dtype_);
  }

  void sum_delta(std::size_t row, const Factors<T>& factors, std::vector<T>& delta) const {
    const auto rank = static_cast<std::size_t>(target_.rank);
    std::ranges::fill(delta, T(0));
    for (std::size_t k = 0; k < rank; ++k) {
      const T factor = factors.left[row * rank + k];
      const T* right = factors.right.data() + k * columns_;
      for (std::size_t j = 0; j < columns_; ++j) delta[j] += factor * right[j];
    }
  }

  static void give_length(std::span<T> row, T length) {
    double squares = 0;
    for (T value : row) squares += static_cast<double>(value) * static_cast<double>(value);
    const T factor = length / static_cast<T>(std::sqrt(squares));
    for (T& value : row) value *= factor;
  }

  SourcePtr weight_;
  DType dtype_;
  std::size_t columns_;
  std::shared_ptr<Merge> merge_;
  const LoraTarget& target_;
  bool transposed_;
};

std::int64_t rest_of(const core::Shape& shape) {
  std::int64_t product = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) product *= shape[i];
  return product;
}

/// True when the weight is stored as [in, out]. Error(value) when the change fits neither way.
bool is_transposed(const LoraTarget& target, const Entry& weight, const LoraConfig& config) {
  const std::int64_t out = target.b->shape[0];
  const std::int64_t in = rest_of(target.a->shape);
  const bool fits = !weight.shape.empty() && weight.shape[0] == out && rest_of(weight.shape) == in;
  const bool fits_transposed = weight.shape.size() == 2 && weight.shape[0] == in && weight.shape[1] == out;
  if (!fits && !fits_transposed) {
    throw Error(ErrorCode::value, "the adapter changes a weight of " + std::to_string(out) + " x " +
                                      std::to_string(in) + ", but the model has " + core::to_list(weight.shape) +
                                      " there: it belongs to another model");
  }
  if (fits && fits_transposed) return target.embedding || config.fan_in_fan_out;
  return fits_transposed;
}

void require_computable(const LoraTarget& target, const Entry& weight, bool transposed) {
  if (weight.blocks) {
    throw Error(ErrorCode::unsupported, "the weight is in quantised blocks of type " + weight.blocks->name +
                                            "; merge into the values they stand for");
  }
  for (const Entry* entry : {&weight, target.a.get(), target.b.get()}) {
    if (entry->bytes == nullptr) throw Error(ErrorCode::unsupported, "a tensor on the meta device has no values");
    if (!core::is_floating(entry->dtype) || !can_cast(entry->dtype)) {
      throw Error(ErrorCode::unsupported, std::string(core::name(entry->dtype)) + " values cannot be computed with");
    }
  }
  if (target.magnitude == nullptr) return;
  if (transposed) throw Error(ErrorCode::unsupported, "DoRA on a weight that is stored transposed cannot be merged");
  if (target.magnitude->numel() != static_cast<std::uint64_t>(weight.shape[0])) {
    throw Error(ErrorCode::value, "the adapter has " + std::to_string(target.magnitude->numel()) +
                                      " lengths for a weight of " + std::to_string(weight.shape[0]) + " rows");
  }
}

/// Names of the base under those of the adapter: one of the two may have a prefix before all names.
class NameMap {
 public:
  NameMap(const std::vector<NamedEntry>& base, const LoraAdapter& adapter) {
    for (const NamedEntry& named : base) by_name_.emplace(named.name, &named);
    if (fits(adapter, "", "")) return;
    const std::string first = adapter.targets.front().module + ".weight";
    for (const NamedEntry& named : base) {
      if (named.name.ends_with("." + first)) {
        fits(adapter, named.name.substr(0, named.name.size() - first.size()), "");
      } else if (first.ends_with("." + named.name)) {
        fits(adapter, "", first.substr(0, first.size() - named.name.size()));
      }
      if (found_) return;
    }
    throw_missing(adapter);
  }

  const std::string& base_prefix() const { return base_prefix_; }
  const std::string& adapter_prefix() const { return adapter_prefix_; }

  /// What the base calls a tensor of the adapter.
  std::string name_in_base(const std::string& name) const {
    const bool shorter = !adapter_prefix_.empty() && name.starts_with(adapter_prefix_);
    return base_prefix_ + (shorter ? name.substr(adapter_prefix_.size()) : name);
  }
  /// Null where the base has none.
  const NamedEntry* find(const std::string& name) const {
    auto found = by_name_.find(name_in_base(name));
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  bool fits(const LoraAdapter& adapter, const std::string& base_prefix, const std::string& adapter_prefix) {
    base_prefix_ = base_prefix;
    adapter_prefix_ = adapter_prefix;
    found_ = std::ranges::all_of(adapter.targets,
                                 [&](const LoraTarget& target) { return find(target.module + ".weight") != nullptr; });
    return found_;
  }

  [[noreturn]] void throw_missing(const LoraAdapter& adapter) {
    base_prefix_.clear();
    adapter_prefix_.clear();
    std::vector<std::string> missing;
    for (const LoraTarget& target : adapter.targets) {
      if (find(target.module + ".weight") == nullptr) missing.push_back(core::quote(target.module + ".weight"));
    }
    const std::size_t shown = std::min(missing.size(), kNamesInMessages);
    const std::string more = missing.size() > shown ? ", ..." : "";
    throw Error(ErrorCode::key, "the model lacks " + std::to_string(missing.size()) + " of the " +
                                    std::to_string(adapter.targets.size()) + " weights that the adapter changes (" +
                                    core::join(std::span(missing).first(shown), ", ") + more +
                                    "): it belongs to another model");
  }

  std::unordered_map<std::string_view, const NamedEntry*> by_name_;
  std::string base_prefix_;
  std::string adapter_prefix_;
  bool found_ = false;
};

class Merger {
 public:
  Merger(const Value& base, const LoraAdapter& adapter, double strength, MergeLoraReport& report)
      : base_(base), entries_(list_entries(base)), names_(entries_, adapter), report_(report) {
    merge_->adapter = adapter;
    merge_->strength = strength;
    report_.base_prefix = names_.base_prefix();
    report_.adapter_prefix = names_.adapter_prefix();
    for (const NamedEntry& named : entries_) by_source_[named.entry->bytes.get()].push_back(named.entry);
  }

  Value run() {
    for (const LoraTarget& target : merge_->adapter.targets) {
      const NamedEntry& weight = *names_.find(target.module + ".weight");
      core::with_context(core::quote(weight.name),
                         [&] { replace(weight, merged(target, target.weight ? *target.weight : *weight.entry)); });
      ++report_.merged;
    }
    std::vector<std::pair<std::string, EntryPtr>> added;
    for (const NamedEntry& named : merge_->adapter.replaced) take_whole(named, added);
    Value out = replaced_.apply(base_);
    if (added.empty()) return out;
    Dict dict = out.as_dict();
    for (auto& [name, entry] : added) dict.items.emplace_back(Value::text(name), Value::tensor(std::move(entry)));
    return Value::dict(std::move(dict));
  }

 private:
  EntryPtr merged(const LoraTarget& target, const Entry& weight) {
    const bool transposed = is_transposed(target, weight, merge_->adapter.config);
    require_computable(target, weight, transposed);
    auto entry = std::make_shared<Entry>(weight);
    entry->view.reset();
    const auto rows = static_cast<std::size_t>(weight.shape[0]);
    if (weight.dtype == DType::f64) {
      entry->bytes =
          std::make_shared<MergedSource<double>>(weight.bytes, weight.dtype, rows, merge_, target, transposed);
    } else {
      entry->bytes =
          std::make_shared<MergedSource<float>>(weight.bytes, weight.dtype, rows, merge_, target, transposed);
    }
    return entry;
  }

  /// Tied names too: PEFT changes the memory that they share.
  void replace(const NamedEntry& old, const EntryPtr& fresh) {
    for (const EntryPtr& entry : by_source_.at(old.entry->bytes.get())) {
      if (entry->shape == old.entry->shape) replaced_.replace(entry, fresh);
    }
  }

  void take_whole(const NamedEntry& named, std::vector<std::pair<std::string, EntryPtr>>& added) {
    const NamedEntry* old = names_.find(named.name);
    ++report_.replaced;
    if (old != nullptr) {
      replaced_.replace(old->entry, named.entry);
      return;
    }
    added.emplace_back(names_.name_in_base(named.name), named.entry);
    report_.added.push_back(added.back().first);
  }

  const Value& base_;
  std::vector<NamedEntry> entries_;
  NameMap names_;
  std::unordered_map<const ByteSource*, std::vector<EntryPtr>> by_source_;  ///< the same view has one source
  MergeLoraReport& report_;
  std::shared_ptr<Merge> merge_ = std::make_shared<Merge>();
  detail::EntryReplacements replaced_;
};

}  // namespace

Checkpoint merge_lora(const Checkpoint& base, const LoraAdapter& adapter, const MergeLoraOptions& options,
                      MergeLoraReport* report) {
  if (!std::isfinite(options.strength)) throw Error(ErrorCode::usage, "the strength is not a finite number");
  MergeLoraReport noted;
  Checkpoint out;
  out.format = base.format;
  out.metadata = base.metadata;
  core::with_context(adapter.path.string(), [&] {
    out.root = Merger(*choose_state_dict(base.root, options.at).value, adapter, options.strength, noted).run();
  });
  if (report != nullptr) *report = std::move(noted);
  return out;
}

}  // namespace ckpt
