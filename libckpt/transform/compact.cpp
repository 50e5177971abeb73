#include "libckpt/transform/compact.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "libckpt/io/checksum.h"
#include "libckpt/transform/entry_map.h"
#include "libckpt/transform/view_overlap.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using detail::EntryReplacements;
using detail::ViewSpan;

/// What one more storage costs in a file (headers, alignment): parting must save more than that.
constexpr std::uint64_t kStorageCost = 512;

/// Distinct entries of a tree, in file order.
std::vector<NamedEntry> distinct_entries(const Value& root) {
  std::vector<NamedEntry> entries = list_entries(root);
  std::set<const Entry*> seen;
  std::erase_if(entries, [&](const NamedEntry& named) { return !seen.insert(named.entry.get()).second; });
  return entries;
}

std::uint64_t element_width(core::DType dtype) {
  return static_cast<std::uint64_t>(core::bit_width(dtype)) / 8;
}

/// Parts a storage between views that do not overlap and cuts each part to what its views span.
class Trimmer {
 public:
  Trimmer(EntryReplacements& replaced, CompactChanges& changes) : replaced_(replaced), changes_(changes) {}

  void trim(const std::shared_ptr<const Storage>& storage, const std::vector<EntryPtr>& entries) {
    bool whole_bytes = std::all_of(entries.begin(), entries.end(),
                                   [](const EntryPtr& e) { return core::bit_width(e->dtype) % 8 == 0; });
    if (!whole_bytes || core::bit_width(storage->dtype) % 8 != 0) return;
    std::vector<ViewSpan> spans;
    for (const EntryPtr& entry : entries) spans.push_back(detail::span_of(entry));
    std::vector<std::vector<ViewSpan>> parts = detail::part_views(std::move(spans));
    std::uint64_t left = 0;
    for (const std::vector<ViewSpan>& spans_of_part : parts) left += size_of(spans_of_part, *storage);
    std::uint64_t cost = kStorageCost * (parts.size() - 1);
    if (left + cost >= storage->bytes->size()) return;
    changes_.view_bytes += storage->bytes->size() - left;
    changes_.views_trimmed += entries.size();
    for (const std::vector<ViewSpan>& spans_of_part : parts) cut(spans_of_part, *storage);
  }

 private:
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
  };

  /// What a part needs of the storage, in whole elements of all types that look at it.
  static Range range_of(const std::vector<ViewSpan>& part, const Storage& storage) {
    Range range{part.front().begin, part.front().end};
    std::uint64_t align = element_width(storage.dtype);
    for (const ViewSpan& span : part) {
      range.end = std::max(range.end, span.end);
      align = std::max(align, element_width(span.entry->dtype));
    }
    if (range.begin == range.end) return {0, 0};
    range.begin -= range.begin % align;
    range.end = std::min(core::align_up(range.end, align), storage.bytes->size());
    return range;
  }

  /// True for one view, under one or more names, that leaves gaps.
  static bool is_lone_with_gaps(const std::vector<ViewSpan>& part) {
    const ViewSpan& first = part.front();
    return first.entry->byte_size() < first.end - first.begin &&
           std::all_of(part.begin(), part.end(), [&](const ViewSpan& s) { return same_view(*s.entry, *first.entry); });
  }

  static std::uint64_t size_of(const std::vector<ViewSpan>& part, const Storage& storage) {
    if (is_lone_with_gaps(part)) return part.front().entry->byte_size();
    Range range = range_of(part, storage);
    return range.end - range.begin;
  }

  void cut(const std::vector<ViewSpan>& part, const Storage& storage) {
    Storage fresh = storage;
    bool gathered = is_lone_with_gaps(part);
    Range range = range_of(part, storage);
    fresh.bytes = gathered ? part.front().entry->bytes : slice(storage.bytes, range.begin, range.end - range.begin);
    auto shared = std::make_shared<const Storage>(std::move(fresh));
    for (const ViewSpan& span : part) {
      auto entry = std::make_shared<Entry>(*span.entry);
      entry->view->storage = shared;
      std::uint64_t begin = span.begin == span.end ? 0 : span.begin - range.begin;
      entry->view->offset = gathered ? 0 : static_cast<std::int64_t>(begin / element_width(entry->dtype));
      if (gathered) entry->view->strides = dense_strides(entry->shape);
      replaced_.replace(span.entry, std::move(entry));
    }
  }

  static core::Shape dense_strides(const core::Shape& shape) {
    core::Shape strides = shape;
    std::int64_t step = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      strides.data()[d] = step;
      step *= std::max<std::int64_t>(shape[d], 1);
    }
    return strides;
  }

  EntryReplacements& replaced_;
  CompactChanges& changes_;
};

using ByStorage = std::vector<std::pair<std::shared_ptr<const Storage>, std::vector<EntryPtr>>>;

/// Storages with the entries that look into them, in file order.
ByStorage group_by_storage(const std::vector<NamedEntry>& entries) {
  ByStorage groups;
  std::unordered_map<const Storage*, std::size_t> place;
  for (const NamedEntry& named : entries) {
    // A tensor without data (meta) has a view of nothing.
    if (!named.entry->bytes || !named.entry->view || !named.entry->view->storage) continue;
    if (!named.entry->view->storage->bytes) continue;
    const std::shared_ptr<const Storage>& storage = named.entry->view->storage;
    auto [found, is_new] = place.emplace(storage.get(), groups.size());
    if (is_new) groups.push_back({storage, {}});
    groups[found->second].second.push_back(named.entry);
  }
  return groups;
}

void trim_views(const std::vector<NamedEntry>& entries, EntryReplacements& replaced, CompactChanges& changes) {
  Trimmer trimmer(replaced, changes);
  for (const auto& [storage, views] : group_by_storage(entries)) trimmer.trim(storage, views);
}

bool equal_bytes(const ByteSource& a, const ByteSource& b) {
  std::uint64_t done = 0;
  bool equal = a.size() == b.size();
  core::ByteVector other;
  for_each_part(a, [&](Bytes part) {
    if (!equal) return;
    other.resize(part.size());
    b.read(done, other);
    equal = std::equal(part.begin(), part.end(), other.begin());
    done += part.size();
  });
  b.require_unchanged();
  return equal;
}

/// Finds tensors with equal bytes.
class Deduper {
 public:
  Deduper(EntryReplacements& replaced, CompactChanges& changes, const Progress& progress)
      : replaced_(replaced), changes_(changes), progress_(progress) {}

  void run(const std::vector<NamedEntry>& entries) {
    find_mixed_storages(entries);
    std::map<Kind, std::vector<const NamedEntry*>> groups;
    for (const NamedEntry& named : entries) {
      if (may_share(*named.entry)) groups[kind_of(*named.entry)].push_back(&named);
    }
    for (const auto& [kind, members] : groups) {
      if (members.size() > 1) total_ += members.size() * members.front()->entry->byte_size();
    }
    for (const auto& [kind, members] : groups) {
      if (members.size() > 1) share(members);
    }
  }

 private:
  using Kind = std::tuple<int, std::string, std::string, bool, bool>;

  static Kind kind_of(const Entry& entry) {
    return {static_cast<int>(entry.dtype), core::to_list(entry.shape), entry.location, entry.conjugate, entry.negative};
  }

  /// Storages that are seen through different windows stay as they are.
  void find_mixed_storages(const std::vector<NamedEntry>& entries) {
    std::unordered_map<const void*, const Entry*> first;
    for (const NamedEntry& named : entries) {
      auto [found, is_new] = first.emplace(storage_identity(*named.entry), named.entry.get());
      if (!is_new && !same_view(*found->second, *named.entry)) mixed_.insert(found->first);
    }
  }

  bool may_share(const Entry& entry) const {
    return entry.bytes && entry.byte_size() > 0 && !mixed_.contains(storage_identity(entry));
  }

  void share(const std::vector<const NamedEntry*>& members) {
    Kept kept;
    // Names that are tied are read once.
    std::map<std::pair<const ByteSource*, const void*>, const NamedEntry*> twins;
    for (const NamedEntry* member : members) {
      done_ += member->entry->byte_size();
      if (progress_) progress_(done_, total_);
      auto [twin, fresh] = twins.try_emplace({member->entry->bytes.get(), storage_identity(*member->entry)}, nullptr);
      if (fresh) {
        twin->second = core::with_context(core::quote(member->name), [&] { return keep_or_find(*member, kept); });
      }
      if (twin->second != nullptr) replace(*member, *twin->second);
    }
  }

  using Kept = std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<const NamedEntry*>>;

  /// A tensor of another storage with the same bytes; null for the first one, which is kept.
  static const NamedEntry* keep_or_find(const NamedEntry& member, Kept& kept) {
    Hash128 hash = hash128(*member.entry->bytes);
    std::vector<const NamedEntry*>& same = kept[{hash.high, hash.low}];
    for (const NamedEntry* other : same) {
      if (storage_identity(*other->entry) == storage_identity(*member.entry)) return nullptr;
      if (equal_bytes(*other->entry->bytes, *member.entry->bytes)) return other;
    }
    same.push_back(&member);
    return nullptr;
  }

  void replace(const NamedEntry& duplicate, const NamedEntry& kept) {
    auto entry = std::make_shared<Entry>(*duplicate.entry);
    entry->bytes = kept.entry->bytes;
    entry->view = kept.entry->view;
    replaced_.replace(duplicate.entry, std::move(entry));
    ++changes_.duplicates;
    if (freed_.insert(storage_identity(*duplicate.entry)).second)
      changes_.duplicate_bytes += duplicate.entry->byte_size();
    changes_.shared.emplace_back(duplicate.name, kept.name);
  }

  EntryReplacements& replaced_;
  CompactChanges& changes_;
  const Progress& progress_;
  std::set<const void*> mixed_;
  std::set<const void*> freed_;
  std::uint64_t done_ = 0;
  std::uint64_t total_ = 0;
};

/// The same bytes under another identity, so that nobody takes two tensors for one.
class OwnSource final : public ByteSource {
 public:
  explicit OwnSource(SourcePtr inner) : inner_(std::move(inner)) {}
  std::uint64_t size() const override { return inner_->size(); }
  void read(std::uint64_t offset, MutableBytes out) const override { inner_->read(offset, out); }
  Bytes memory() const override { return inner_->memory(); }
  std::optional<FileRange> file_range() const override { return inner_->file_range(); }
  void require_unchanged() const override { inner_->require_unchanged(); }
  void visit_checked(const CheckedVisitor& see) const override { inner_->visit_checked(see); }

 private:
  SourcePtr inner_;
};

void untie(const std::vector<NamedEntry>& entries, EntryReplacements& replaced, CompactChanges& changes) {
  std::set<const void*> taken;
  for (const NamedEntry& named : entries) {
    const void* identity = storage_identity(*named.entry);
    if (identity == nullptr || taken.insert(identity).second) continue;
    auto entry = std::make_shared<Entry>(*named.entry);
    entry->bytes = std::make_shared<OwnSource>(entry->bytes);
    entry->view.reset();
    ++changes.untied;
    changes.untied_bytes += entry->byte_size();
    replaced.replace(named.entry, std::move(entry));
  }
}

}  // namespace

Checkpoint compact(const Checkpoint& checkpoint, const CompactOptions& options, CompactChanges* changes) {
  if (options.dedupe && options.untie) {
    throw core::Error(core::ErrorCode::usage, "equal tensors cannot be both shared and kept apart");
  }
  CompactChanges noted;
  Checkpoint out = checkpoint;
  auto step = [&](auto&& body) {
    EntryReplacements replaced;
    body(distinct_entries(out.root), replaced);
    out.root = replaced.apply(out.root);
  };
  noted.tensors = list_entries(checkpoint.root).size();
  // Parting comes before trimming: a name that gets bytes of its own must not hold on to the storage.
  if (options.untie) step([&](const auto& entries, auto& replaced) { untie(entries, replaced, noted); });
  if (options.trim_views) step([&](const auto& entries, auto& replaced) { trim_views(entries, replaced, noted); });
  if (options.dedupe) {
    step([&](const auto& entries, auto& replaced) { Deduper(replaced, noted, options.progress).run(entries); });
  }
  if (changes != nullptr) *changes = std::move(noted);
  return out;
}

}  // namespace ckpt
