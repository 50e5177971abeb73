#include "libckpt/format/fsdp/fsdp_join.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "libckpt/checkpoint.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/format/dcp/chunk_source.h"
#include "libckpt/format/fsdp/sharded_tensor.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using Ranks = std::vector<const Value*>;

/// All parameters that one FSDP module manages, one behind the other.
bool is_flat(const std::string& key) {
  const std::size_t dot = key.rfind('.');
  const std::string_view last = std::string_view(key).substr(dot == std::string::npos ? 0 : dot + 1);
  return last == "_flat_param" || last.starts_with("flat_param");
}

/// A key and its kind, since 1 and "1" are two keys.
std::string key_of(const Value& key) {
  return std::string(1, static_cast<char>('0' + static_cast<int>(key.kind()))) + step_text(key);
}

class FsdpJoin {
 public:
  explicit FsdpJoin(const FsdpFiles& files) : files_(files) {}

  Value run() const {
    Ranks roots;
    for (const Value& root : files_.roots) roots.push_back(&root);
    refuse_flat(*roots[0], "");
    return joined(roots);
  }

 private:
  static void refuse_flat(const Value& value, const std::string& key) {
    if (is_sharded(value) && is_flat(key)) {
      throw core::Error(core::ErrorCode::unsupported,
                        core::quote(key) + " is a flat parameter of FSDP (LOCAL_STATE_DICT): " +
                            core::to_list(shards_of(value).shape) +
                            " values of several parameters, one behind the other, and no file says their shapes; where "
                            "the model runs, "
                            "load it and save with StateDictType.SHARDED_STATE_DICT or FULL_STATE_DICT");
    }
    if (!value.is(Value::Kind::dict)) return;
    for (const auto& [name, item] : value.as_dict().items) refuse_flat(item, step_text(name));
  }

  Value joined(const Ranks& ranks) const {
    const Value& first = *ranks[0];
    if (is_sharded(first)) return joined_tensor(ranks);
    if (first.is(Value::Kind::dict)) return joined_dict(ranks);
    if (first.is(Value::Kind::list) || first.is(Value::Kind::tuple)) return joined_sequence(ranks);
    require_alike(ranks);
    return first;
  }

  /// What is not sharded every rank has; values may differ, as running means do.
  void require_alike(const Ranks& ranks) const {
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      if (is_sharded(*ranks[rank])) corrupt("it is sharded on rank " + std::to_string(rank) + ", and not on rank 0");
      if (!ranks[0]->is(Value::Kind::tensor) || !ranks[rank]->is(Value::Kind::tensor)) continue;
      const Entry& here = ranks[0]->as_entry();
      const Entry& there = ranks[rank]->as_entry();
      if (here.shape == there.shape && here.dtype == there.dtype) continue;
      corrupt("it is not sharded, and has the shape " + core::to_list(here.shape) + " on rank 0 and " +
              core::to_list(there.shape) + " on rank " + std::to_string(rank));
    }
  }

  Value joined_dict(const Ranks& ranks) const {
    std::vector<std::unordered_map<std::string, const Value*>> items(ranks.size());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (!ranks[rank]->is(Value::Kind::dict))
        corrupt("it is a dict on rank 0, and none on rank " + std::to_string(rank));
      for (const auto& [key, value] : ranks[rank]->as_dict().items) {
        items[rank][key_of(key)] = &value;
        const bool extra = rank > 0 && is_sharded(value) && !items[0].contains(key_of(key));
        if (extra)
          corrupt(core::quote(step_text(key)) + ": rank " + std::to_string(rank) + " has it, and rank 0 does not");
      }
    }
    Dict out = ranks[0]->as_dict();
    for (auto& [key, value] : out.items) {
      core::with_context(core::quote(step_text(key)), [&] { value = joined(same_on_all(items, key_of(key))); });
    }
    return Value::dict(std::move(out));
  }

  static Ranks same_on_all(const std::vector<std::unordered_map<std::string, const Value*>>& items,
                           const std::string& key) {
    Ranks out;
    for (std::size_t rank = 0; rank < items.size(); ++rank) {
      auto found = items[rank].find(key);
      if (found != items[rank].end()) {
        out.push_back(found->second);
      } else if (is_sharded(*out[0]) || out[0]->is(Value::Kind::tensor)) {
        corrupt("rank 0 has it, and rank " + std::to_string(rank) + " does not");
      } else {
        return {out[0]};
      }
    }
    return out;
  }

  Value joined_sequence(const Ranks& ranks) const {
    Value::List out = ranks[0]->as_list();
    for (std::size_t i = 0; i < out.size(); ++i) {
      Ranks same;
      for (const Value* rank : ranks) {
        const bool there = rank->is(ranks[0]->kind()) && rank->as_list().size() == out.size();
        if (there) same.push_back(&rank->as_list()[i]);
      }
      // Lists of another length are settings of each rank, which have no tensors in common.
      if (same.size() == ranks.size()) {
        out[i] = joined(same);
      } else if (first_sharded(out[i]) != nullptr) {
        corrupt("it is a list with sharded tensors on rank 0, and not every rank has one of that length");
      }
    }
    return ranks[0]->is(Value::Kind::list) ? Value::list(std::move(out)) : Value::tuple(std::move(out));
  }

  Value joined_tensor(const Ranks& ranks) const {
    const Shards whole = shards_of(*ranks[0]);
    if (!core::try_numel(whole.shape.span())) corrupt("it has the impossible shape " + core::to_list(whole.shape));
    std::vector<SourceChunk> chunks;
    std::vector<Box> boxes;
    std::set<Place> places;  // groups of ranks that have the same pieces: HYBRID_SHARD
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      core::with_context(core::quote(files_.names[rank]), [&] {
        if (!is_sharded(*ranks[rank])) corrupt("it is sharded on rank 0, and not here");
        const Shards part = shards_of(*ranks[rank]);
        if (part.shape != whole.shape || part.dtype != whole.dtype) {
          corrupt("it is " + core::to_list(part.shape) + " of " + std::string(core::name(part.dtype)) +
                  " where rank 0 says " + core::to_list(whole.shape) + " of " + std::string(core::name(whole.dtype)));
        }
        for (const Shard& shard : part.local) {
          if (!places.insert(place_of(shard.box)).second) continue;
          boxes.push_back(shard.box);
          if (shard.values->numel() > 0) chunks.push_back({shard.box, shard.values->bytes});
        }
      });
    }
    check_tiling(whole.shape, boxes);
    auto entry = std::make_shared<Entry>();
    entry->dtype = whole.dtype;
    entry->shape = whole.shape;
    const auto width = static_cast<std::uint64_t>(core::bit_width(whole.dtype)) / 8;
    entry->bytes = assemble_chunks(whole.shape, width, std::move(chunks));
    return Value::tensor(std::move(entry));
  }

  const FsdpFiles& files_;
};

}  // namespace

Value join_fsdp(const FsdpFiles& files) {
  return FsdpJoin(files).run();
}

}  // namespace ckpt::detail
