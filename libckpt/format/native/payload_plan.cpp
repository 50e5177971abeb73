#include "libckpt/format/native/payload_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_set>

#include "libckpt/view_key.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

/// All tensors of a tree once each, in order of first appearance, those in tensors' attributes included.
class EntryCollector {
 public:
  std::vector<const Entry*> entries;

  void walk(const Value& value) {
    if (value.identity() != nullptr && !seen_.insert(value.identity()).second) return;
    if (value.is_sequence()) {
      for (const Value& item : value.as_list()) walk(item);
    } else if (value.is(Value::Kind::dict)) {
      walk_items(value.as_dict().items);
      walk(value.as_dict().attributes);
      walk(value.as_dict().constructor_args);
    } else if (value.is(Value::Kind::tensor)) {
      entries.push_back(&value.as_entry());
      walk(value.as_entry().attributes);
    } else if (value.is(Value::Kind::object)) {
      walk_object(value.as_object());
    }
  }

 private:
  void walk_items(const std::vector<std::pair<Value, Value>>& items) {
    for (const auto& [key, child] : items) walk(key), walk(child);
  }
  void walk_object(const Object& object) {
    for (const Value* part : {&object.args, &object.kwargs, &object.state}) walk(*part);
    for (const Value& item : object.appended) walk(item);
    walk_items(object.items);
  }
  std::unordered_set<const void*> seen_;
};

bool has_no_elements(const core::Shape& shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

bool is_row_major(const core::Shape& shape, const core::Shape& strides) {
  if (has_no_elements(shape)) return true;
  std::int64_t expected = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

/// The elements fill one run of memory without gaps or overlaps, in some order of dimensions.
bool is_dense_permutation(const core::Shape& shape, const core::Shape& strides) {
  if (has_no_elements(shape)) return true;
  std::vector<std::size_t> order(shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::int64_t expected = 1;
  for (std::size_t d : order) {
    if (shape[d] == 1) continue;
    if (strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

bool covers_storage(const Entry& entry) {
  return entry.view->offset == 0 && entry.view->storage->bytes->size() == entry.byte_size();
}

/// Byte offset of a row-major window, or nullopt for any other view.
std::optional<std::uint64_t> window_offset(const Entry& entry) {
  if (entry.byte_size() == 0) return 0;
  if (!is_row_major(entry.shape, entry.view->strides)) return std::nullopt;
  return core::byte_size(entry.dtype, static_cast<std::uint64_t>(entry.view->offset));
}

/// A view whose logical bytes are far more than the storage it repeats: it is not expanded into a file.
bool repeats_storage(const Entry& entry) {
  constexpr std::uint64_t kFloor = 1ULL << 30;
  constexpr std::uint64_t kRatio = 100;
  return entry.byte_size() > kFloor && entry.byte_size() / kRatio > entry.view->storage->bytes->size();
}

/// How a row-major payload lies in the memory of a permuted tensor: dimensions by falling stride, each with the stride
/// it has in the payload.
MemoryOrder memory_order(const Entry& entry) {
  const core::Shape& strides = entry.view->strides;
  core::Shape row_major = core::contiguous_strides(entry.shape);
  std::vector<std::size_t> order(entry.shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  MemoryOrder memory{entry.dtype, {}, {}};
  for (std::size_t d : order) {
    memory.shape.push_back(entry.shape[d]);
    memory.strides.push_back(row_major[d]);
  }
  return memory;
}

class Planner {
 public:
  PayloadPlan run(const Value& root) {
    EntryCollector collector;
    collector.walk(root);
    for (const Entry* entry : collector.entries) {
      check(*entry);
      plan_.records.try_emplace(entry);
      const void* identity = entry->bytes == nullptr ? nullptr : storage_identity(*entry);
      if (identity == nullptr) continue;
      auto [at, first] = groups_.try_emplace(identity);
      if (first) order_.push_back(identity);
      at->second.push_back(entry);
    }
    for (const void* identity : order_) add_group(groups_.at(identity));
    return std::move(plan_);
  }

 private:
  using Group = std::vector<const Entry*>;
  using Copies = std::map<ViewKey, Window>;  ///< of the views of one storage

  static void check(const Entry& entry) {
    std::optional<std::uint64_t> numel = core::try_numel(entry.shape.span());
    std::optional<std::uint64_t> size = numel ? core::byte_size(entry.dtype, *numel) : std::nullopt;
    if (entry.bytes == nullptr || (size && *size == entry.bytes->size())) return;
    throw core::Error(core::ErrorCode::value, "a tensor of shape " + core::to_list(entry.shape) + " and type " +
                                                  std::string(core::name(entry.dtype)) + " comes with " +
                                                  std::to_string(entry.bytes->size()) + " bytes");
  }

  std::uint32_t add_payload(const SourcePtr& source, const Entry* uniform) {
    plan_.payloads.push_back({source, uniform});
    return static_cast<std::uint32_t>(plan_.payloads.size() - 1);
  }

  std::uint32_t add_storage(std::uint32_t payload, const Storage& storage, std::optional<MemoryOrder> order) {
    plan_.storages.push_back({payload, storage.dtype, storage.location, std::move(order)});
    return static_cast<std::uint32_t>(plan_.storages.size() - 1);
  }

  void add_group(const Group& group) {
    const Entry& first = *group.front();
    if (!first.view) return add_plain(group);
    bool one_view = std::all_of(group.begin(), group.end(), [&](const Entry* e) { return same_view(*e, first); });
    if (one_view && first.byte_size() <= first.view->storage->bytes->size()) return add_lone_view(group);
    add_shared_storage(group);
  }

  /// Tensors over one source, from a format without views.
  void add_plain(const Group& group) {
    const Entry& first = *group.front();
    bool uniform = std::all_of(group.begin(), group.end(),
                               [&](const Entry* e) { return e->dtype == first.dtype && e->shape == first.shape; });
    std::uint32_t payload = add_payload(first.bytes, uniform ? &first : nullptr);
    for (const Entry* entry : group) plan_.records[entry].window = Window{payload, 0};
  }

  /// One view, perhaps under several names. When it fills its storage, the storage comes back with it; a window into
  /// something larger that nobody else looks into does not drag the rest along.
  void add_lone_view(const Group& group) {
    const Entry& first = *group.front();
    std::uint32_t payload = add_payload(first.bytes, &first);
    std::optional<std::uint32_t> storage;
    if (covers_storage(first) && is_dense_permutation(first.shape, first.view->strides)) {
      std::optional<MemoryOrder> order;
      if (!is_row_major(first.shape, first.view->strides)) order = memory_order(first);
      storage = add_storage(payload, *first.view->storage, std::move(order));
    }
    for (const Entry* entry : group) {
      EntryRecord& record = plan_.records[entry];
      record.window = Window{payload, 0};
      if (storage) record.view = ViewRecord{*storage, entry->view->offset, entry->view->strides};
    }
  }

  void add_shared_storage(const Group& group) {
    const Storage& shared = *group.front()->view->storage;
    std::uint32_t payload = add_payload(shared.bytes, nullptr);
    std::uint32_t storage = add_storage(payload, shared, std::nullopt);
    Copies copied;
    for (const Entry* entry : group) {
      EntryRecord& record = plan_.records[entry];
      record.view = ViewRecord{storage, entry->view->offset, entry->view->strides};
      if (repeats_storage(*entry)) continue;
      std::optional<std::uint64_t> offset = window_offset(*entry);
      record.window = offset ? Window{payload, *offset} : copy_of(*entry, copied);
    }
  }

  /// A strided view of a shared storage also gets its logical bytes, because HDF5 readers know no strides.
  Window copy_of(const Entry& entry, Copies& copied) {
    auto [known, fresh] = copied.try_emplace(view_key(entry));
    if (fresh) known->second = Window{add_payload(entry.bytes, &entry), 0};
    return known->second;
  }

  PayloadPlan plan_;
  std::unordered_map<const void*, Group> groups_;
  std::vector<const void*> order_;
};

}  // namespace

PayloadPlan plan_payloads(const Value& root) {
  return Planner().run(root);
}

}  // namespace ckpt::detail
