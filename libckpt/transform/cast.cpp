#include "libckpt/transform/cast.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/transform/tree_map.h"
#include "libckpt/view_key.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::DType;

std::string_view last_part(std::string_view name) {
  return name.substr(name.rfind('.') + 1);
}

std::string_view module_of(std::string_view name) {
  std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

/// "optimizer.state.3.step": a count, whatever its type.
bool is_step_counter(const NamedEntry& named) {
  std::size_t depth = named.path.size();
  return last_part(named.name) == "step" && depth >= 3 && step_text(named.path[depth - 3]) == "state";
}

/// Modules with running statistics, and those whose own name says that they normalise: "norm1", "ln_f", "bn2".
class NormModules {
 public:
  explicit NormModules(const std::vector<NamedEntry>& entries) {
    for (const NamedEntry& named : entries) {
      std::string_view last = last_part(named.name);
      if (last == "running_mean" || last == "running_var") with_statistics_.insert(module_of(named.name));
    }
  }

  bool contains(const NamedEntry& named) const {
    std::string_view module = module_of(named.name);
    return with_statistics_.contains(module) || is_norm_name(last_part(module));
  }

 private:
  static bool is_norm_name(std::string_view module) {
    std::string lower(module);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    if (lower.find("norm") != std::string::npos) return true;
    constexpr std::array<std::string_view, 3> kShort = {"ln", "bn", "gn"};
    return std::any_of(kShort.begin(), kShort.end(), [&](std::string_view start) {
      if (!lower.starts_with(start)) return false;
      return lower.size() == start.size() || lower[2] == '_' || std::isdigit(static_cast<unsigned char>(lower[2])) != 0;
    });
  }

  std::set<std::string_view> with_statistics_;  // views into the names of the caller's entries
};

/// Whether an empty `from` means this type: what Module.to() would cast, and integers among themselves.
bool is_meant(DType from, DType to) {
  if (core::is_integer(to)) return core::is_integer(from);
  if (core::is_floating(to)) return core::is_floating(from);
  return core::is_complex(to) && (core::is_floating(from) || core::is_complex(from));
}

void require_castable(DType dtype) {
  if (can_cast(dtype)) return;
  throw core::Error(core::ErrorCode::unsupported,
                    "values of type " + std::string(core::name(dtype)) + " cannot be cast");
}

/// Decides for every tensor and makes the new ones.
class Caster {
 public:
  Caster(const Checkpoint& checkpoint, const CastOptions& options)
      : options_(options), keep_(options.keep), keeps_(!options.keep.include.empty()) {
    std::vector<NamedEntry> entries = list_entries(value_at(checkpoint.root, options.at));
    NormModules norms(entries);
    for (const NamedEntry& named : entries) decide(named, norms);
    if (!kept_.empty()) keep_ties(entries);
    for (const NamedEntry& named : list_entries(checkpoint.root)) note_storage(*named.entry);
  }

  const CastReport& report() const { return report_; }

  /// The replacement of an entry, or null when it stays.
  std::shared_ptr<const Entry> replacement(const Entry& entry) {
    if (!wanted_.contains(&entry) || kept_.contains(&entry)) return nullptr;
    auto out = std::make_shared<Entry>(entry);
    out->dtype = options_.to;
    if (!core::is_complex(out->dtype)) out->conjugate = false;
    if (!core::is_floating(out->dtype) && !core::is_complex(out->dtype)) out->requires_grad = false;
    if (entry.bytes != nullptr) replace_bytes(entry, *out);
    count(entry, *out);
    return out;
  }

 private:
  /// What is known about the entries that look into one storage.
  struct Sharing {
    DType dtype;
    bool whole = true;  ///< all of them have this type and will be cast
    std::size_t entries = 0;
    std::shared_ptr<const Storage> storage;  ///< the new one, once made
  };

  void decide(const NamedEntry& named, const NormModules& norms) {
    if (!seen_.insert(named.entry.get()).second && !keeps_ && !options_.keep_norms) return;
    DType from = named.entry->dtype;
    bool listed = std::find(options_.from.begin(), options_.from.end(), from) != options_.from.end();
    bool meant =
        from != options_.to && can_cast(from) && (options_.from.empty() ? is_meant(from, options_.to) : listed);
    if (!meant) return;
    wanted_.insert(named.entry.get());
    bool kept = (is_step_counter(named) && !is_exact_cast(from, options_.to)) ||
                (options_.keep_norms && norms.contains(named)) || (keeps_ && keep_.contains(named.name, *named.entry));
    if (kept) kept_.insert(named.entry.get());
  }

  /// One parameter under several names has one type: what is kept under one of them is kept under all.
  void keep_ties(const std::vector<NamedEntry>& entries) {
    std::set<detail::ViewKey> kept;
    for (const Entry* entry : kept_) {
      if (storage_identity(*entry) != nullptr) kept.insert(detail::view_key(*entry));
    }
    for (const NamedEntry& named : entries) {
      bool tied = storage_identity(*named.entry) != nullptr && kept.contains(detail::view_key(*named.entry));
      if (tied && wanted_.contains(named.entry.get())) kept_.insert(named.entry.get());
    }
  }

  void note_storage(const Entry& entry) {
    if (!entry.view) return;
    auto [found, is_new] = storages_.try_emplace(entry.view->storage.get(), Sharing{entry.dtype, true, 0, nullptr});
    Sharing& sharing = found->second;
    ++sharing.entries;
    bool changes = wanted_.contains(&entry) && !kept_.contains(&entry);
    sharing.whole &= changes && entry.dtype == sharing.dtype;
  }

  void replace_bytes(const Entry& entry, Entry& out) {
    if (entry.view && keeps_view(entry)) {
      out.view->storage = cast_storage(*entry.view->storage);
      out.bytes = same_source(entry, [&] { return gather(*out.view, out.dtype, out.shape); });
      return;
    }
    if (entry.view && storages_.at(entry.view->storage.get()).entries > 1) ++report_.untied;
    out.view.reset();
    out.bytes = same_source(entry, [&] { return cast_source(entry.bytes, entry.dtype, out.dtype); });
  }

  bool keeps_view(const Entry& entry) const {
    const Storage& storage = *entry.view->storage;
    auto width = static_cast<std::uint64_t>(core::bit_width(entry.dtype)) / 8;
    return storages_.at(&storage).whole && storage.bytes != nullptr && storage.bytes->size() % width == 0;
  }

  std::shared_ptr<const Storage> cast_storage(const Storage& old) {
    Sharing& sharing = storages_.at(&old);
    if (sharing.storage == nullptr) {
      Storage fresh = old;
      fresh.bytes = cast_source(old.bytes, sharing.dtype, options_.to);
      if (old.dtype == sharing.dtype) fresh.dtype = options_.to;
      sharing.storage = std::make_shared<const Storage>(std::move(fresh));
    }
    return sharing.storage;
  }

  /// Entries that shared one source share the new one: that is what makes them tied.
  template <class Make>
  SourcePtr same_source(const Entry& entry, Make make) {
    SourcePtr& known = sources_[{entry.bytes.get(), entry.dtype}];
    if (known == nullptr) known = make();
    return known;
  }

  void count(const Entry& before, const Entry& after) {
    ++report_.changed;
    report_.bytes_before += before.byte_size();
    report_.bytes_after += after.byte_size();
    for (CastReport::Count& known : report_.counts) {
      if (known.from == before.dtype) {
        ++known.tensors;
        return;
      }
    }
    report_.counts.push_back({before.dtype, after.dtype, 1});
  }

 public:
  /// Counts that need no new tensors. Called once.
  void count_scope() {
    report_.tensors = seen_.size();
    report_.kept = kept_.size();
    for (const Entry* entry : seen_) {
      if (wanted_.contains(entry) && !kept_.contains(entry)) continue;
      report_.bytes_before += entry->byte_size();
      report_.bytes_after += entry->byte_size();
    }
  }

 private:
  const CastOptions& options_;
  SelectionMatcher keep_;
  bool keeps_;
  CastReport report_;
  std::unordered_set<const Entry*> seen_;
  std::unordered_set<const Entry*> wanted_;
  std::unordered_set<const Entry*> kept_;
  std::unordered_map<const Storage*, Sharing> storages_;
  std::map<std::pair<const ByteSource*, DType>, SourcePtr> sources_;
};

class CastMap final : public detail::TreeMap {
 public:
  explicit CastMap(Caster& caster) : caster_(caster) {}

 protected:
  Value map_tensor(const Value& tensor) override {
    std::shared_ptr<const Entry> replaced = caster_.replacement(tensor.as_entry());
    return replaced == nullptr ? tensor : Value::tensor(std::move(replaced));
  }

 private:
  Caster& caster_;
};

}  // namespace

Checkpoint cast(const Checkpoint& checkpoint, const CastOptions& options, CastReport* report) {
  require_castable(options.to);
  for (DType dtype : options.from) require_castable(dtype);
  Caster caster(checkpoint, options);
  Checkpoint out = checkpoint;
  out.root = CastMap(caster).map(checkpoint.root);
  caster.count_scope();
  if (report != nullptr) *report = caster.report();
  return out;
}

}  // namespace ckpt
