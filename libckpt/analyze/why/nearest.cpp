// Known models by the shapes of their tensors, whatever the names.

#include <algorithm>
#include <unordered_map>

#include "libckpt/analyze/why/attempt.h"

namespace ckpt {
namespace {

std::size_t hash_of(const core::Shape& shape) {
  std::size_t hash = shape.size();
  for (std::int64_t size : shape)
    hash = (hash ^ static_cast<std::size_t>(size)) * 0x9E3779B97F4A7C15ULL + (hash >> 29U);
  return hash;
}

/// How often each shape comes; counters of batch norm do not count, because old files lack them.
using Shapes = std::unordered_map<std::size_t, std::size_t>;

struct Counted {
  Shapes shapes;
  std::size_t tensors = 0;
};

Counted count_shapes(const Dict& dict) {
  Counted counted;
  for (const auto& [key, value] : dict.items) {
    if (!value.is(Value::Kind::tensor) || detail::is_counter(step_text(key))) continue;
    ++counted.shapes[hash_of(value_shape(value.as_entry()))];
    ++counted.tensors;
  }
  return counted;
}

double shared_share(const Counted& file, const KeyList& model) {
  Shapes left = file.shapes;
  std::size_t tensors = 0;
  std::size_t shared = 0;
  for (const WantedKey& wanted : model.keys) {
    if (detail::is_counter(wanted.key)) continue;
    ++tensors;
    if (!wanted.shape) continue;
    auto found = left.find(hash_of(*wanted.shape));
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++shared;
  }
  std::size_t all = std::max(tensors, file.tensors);
  return all == 0 ? 0 : static_cast<double>(shared) / static_cast<double>(all);
}

}  // namespace

std::vector<NearModel> nearest_models(const std::vector<KeyList>& known, const Dict& state_dict, std::size_t max) {
  constexpr double kLeast = 0.5;
  Counted file = count_shapes(state_dict);
  std::vector<NearModel> near;
  for (const KeyList& model : known) {
    // A model of another size cannot share enough; this spares most of the work.
    std::size_t most = std::max(model.keys.size(), file.tensors);
    std::size_t least = std::min(model.keys.size(), file.tensors);
    if (least * 4 < most) continue;
    double share = shared_share(file, model);
    if (share >= kLeast) near.push_back({&model, share});
  }
  std::stable_sort(near.begin(), near.end(), [](const NearModel& a, const NearModel& b) { return a.share > b.share; });
  if (near.size() > max) near.resize(max);
  return near;
}

}  // namespace ckpt
