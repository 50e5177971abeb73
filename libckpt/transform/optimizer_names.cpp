#include "libckpt/transform/optimizer_names.h"

#include <map>
#include <set>

#include "libckpt/transform/selector.h"
#include "libckpt/view_key.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kNone = SIZE_MAX;
constexpr std::size_t kMaxRounds = 64;  ///< of groups that make each other certain; beyond that, they stay ambiguous

/// For each parameter of the optimizer its place in the model; kNone where nothing is said.
using Assignment = std::vector<std::size_t>;
using Model = std::vector<ModelParameter>;

bool fits(const std::optional<core::Shape>& shape, const ModelParameter& parameter) {
  return !shape || *shape == parameter.shape;
}

GroupShapes flatten(const std::vector<GroupShapes>& groups) {
  GroupShapes all;
  for (const GroupShapes& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// The parameters one after the other: all of the model's.
std::optional<Assignment> in_order(const GroupShapes& all, const Model& model) {
  if (all.size() != model.size()) return std::nullopt;
  Assignment assignment;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!fits(all[i], model[i])) return std::nullopt;
    assignment.push_back(i);
  }
  return assignment;
}

/// Two groups: those of two dimensions and more, and the rest (biases, norms), in either order.
std::optional<Assignment> by_dimensions(const std::vector<GroupShapes>& groups, const Model& model, bool large_first) {
  if (groups.size() != 2) return std::nullopt;
  std::vector<std::size_t> order;
  for (bool large : {large_first, !large_first}) {
    for (std::size_t i = 0; i < model.size(); ++i) {
      if ((model[i].shape.size() >= 2) == large) order.push_back(i);
    }
    if (large == large_first && order.size() != groups[0].size()) return std::nullopt;
  }
  GroupShapes all = flatten(groups);
  if (order.size() != all.size()) return std::nullopt;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!fits(all[i], model[order[i]])) return std::nullopt;
  }
  return order;
}

/// The places of the model that no group has taken for certain, found by their shapes.
class FreePlaces {
 public:
  explicit FreePlaces(const Model& model) : model_(model) {
    for (std::size_t i = 0; i < model.size(); ++i) {
      all_.insert(all_.end(), i);
      by_shape_[model[i].shape.to_vector()].insert(i);
    }
  }

  void take(std::size_t place) {
    all_.erase(place);
    by_shape_[model_[place].shape.to_vector()].erase(place);
  }
  /// The first that fits from `begin` on; kNone when there is none.
  std::size_t first(const std::optional<core::Shape>& shape, std::size_t begin) const {
    const Places& places = fitting(shape);
    auto found = places.lower_bound(begin);
    return found == places.end() ? kNone : *found;
  }
  /// The last that fits before `end`; kNone when there is none.
  std::size_t last(const std::optional<core::Shape>& shape, std::size_t end) const {
    const Places& places = fitting(shape);
    auto behind = places.lower_bound(end);
    return behind == places.begin() ? kNone : *std::prev(behind);
  }

 private:
  using Places = std::set<std::size_t>;

  const Places& fitting(const std::optional<core::Shape>& shape) const {
    static const Places kNothing;
    if (!shape) return all_;
    auto found = by_shape_.find(shape->to_vector());
    return found == by_shape_.end() ? kNothing : found->second;
  }

  const Model& model_;
  Places all_;
  std::map<std::vector<std::int64_t>, Places> by_shape_;
};

/// The first place for each, in order, that leaves room for none before it; nullopt when they do not fit.
std::optional<Assignment> embed_left(const GroupShapes& shapes, const FreePlaces& free) {
  Assignment assignment;
  std::size_t at = 0;
  for (const std::optional<core::Shape>& shape : shapes) {
    std::size_t place = free.first(shape, at);
    if (place == kNone) return std::nullopt;
    assignment.push_back(place);
    at = place + 1;
  }
  return assignment;
}

std::optional<Assignment> embed_right(const GroupShapes& shapes, const FreePlaces& free) {
  Assignment assignment(shapes.size(), kNone);
  std::size_t at = kNone;
  for (std::size_t i = shapes.size(); i-- > 0;) {
    at = free.last(shapes[i], at);
    if (at == kNone) return std::nullopt;
    assignment[i] = at;
  }
  return assignment;
}

NameMatch ambiguous(const Model& model, std::size_t first, std::size_t last) {
  return {NameEvidence::ambiguous, "", core::quote(model[first].name) + " or " + core::quote(model[last].name)};
}

/// Part of the model's parameters, group by group in the order of the model: certain where the leftmost and the
/// rightmost way to place them agree. What one group takes for certain may make the next one certain.
std::vector<NameMatch> embed(const std::vector<GroupShapes>& groups, const Model& model) {
  std::vector<std::vector<NameMatch>> matches(groups.size());
  FreePlaces free(model);
  std::vector<bool> done(groups.size(), false);
  bool progress = true;
  for (std::size_t round = 0; progress && round < kMaxRounds; ++round) {
    progress = false;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (done[g]) continue;
      std::optional<Assignment> left = embed_left(groups[g], free);
      std::optional<Assignment> right = embed_right(groups[g], free);
      matches[g].assign(groups[g].size(), NameMatch{});
      if (!left || !right) continue;
      done[g] = *left == *right;
      progress |= done[g];
      for (std::size_t i = 0; i < groups[g].size(); ++i) {
        bool certain = (*left)[i] == (*right)[i];
        matches[g][i] = certain ? NameMatch{NameEvidence::shape, model[(*left)[i]].name, ""}
                                : ambiguous(model, (*left)[i], (*right)[i]);
        if (done[g]) free.take((*left)[i]);
      }
    }
  }
  std::vector<NameMatch> all;
  for (std::vector<NameMatch>& group : matches) all.insert(all.end(), group.begin(), group.end());
  return all;
}

/// Where all hypotheses that fit say the same.
std::vector<NameMatch> agree(const std::vector<Assignment>& hypotheses, const GroupShapes& shapes, const Model& model) {
  std::vector<NameMatch> matches;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    std::set<std::size_t> places;
    for (const Assignment& hypothesis : hypotheses) places.insert(hypothesis[i]);
    if (places.size() > 1) {
      matches.push_back(ambiguous(model, *places.begin(), *places.rbegin()));
    } else {
      matches.push_back({shapes[i] ? NameEvidence::shape : NameEvidence::order, model[*places.begin()].name, ""});
    }
  }
  return matches;
}

}  // namespace

std::vector<ModelParameter> model_parameters(const Value& state_dict) {
  std::vector<ModelParameter> parameters;
  std::set<ViewKey> seen;
  for (const NamedEntry& named : list_entries(state_dict)) {
    const Entry& entry = *named.entry;
    if (tensor_kind(named.name, entry) != TensorKind::parameter) continue;
    if (storage_identity(entry) != nullptr && !seen.insert(view_key(entry)).second) continue;
    parameters.push_back({named.name, entry.shape});
  }
  return parameters;
}

std::vector<NameMatch> match_names(const std::vector<GroupShapes>& groups, const std::vector<ModelParameter>& model) {
  GroupShapes all = flatten(groups);
  std::vector<Assignment> hypotheses;
  if (auto found = in_order(all, model)) hypotheses.push_back(*found);
  for (bool large_first : {true, false}) {
    if (auto found = by_dimensions(groups, model, large_first)) hypotheses.push_back(*found);
  }
  if (!hypotheses.empty()) return agree(hypotheses, all, model);
  return embed(groups, model);
}

}  // namespace ckpt::detail
