#include "libckpt/analyze/why/projections.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

/// How projects call the three projections, and the one that holds all of them.
constexpr std::array<std::array<std::string_view, 3>, 6> kSplit = {{{"q_proj", "k_proj", "v_proj"},
                                                                    {"query", "key", "value"},
                                                                    {"q", "k", "v"},
                                                                    {"wq", "wk", "wv"},
                                                                    {"to_q", "to_k", "to_v"},
                                                                    {"q_lin", "k_lin", "v_lin"}}};
constexpr std::array<std::string_view, 5> kFused = {"qkv", "Wqkv", "qkv_proj", "in_proj", "to_qkv"};

struct FusedKey {
  std::string parent;  ///< with its dot
  std::string leaf;    ///< "weight" or "bias"
};

/// Takes "attn.qkv.weight" or "attn.in_proj_weight" apart.
std::optional<FusedKey> parse_fused(std::string_view key) {
  auto with_dot = [](std::string_view text) { return text.empty() ? std::string() : std::string(text) + "."; };
  std::string_view leaf = leaf_of(key);
  if (leaf == "in_proj_weight" || leaf == "in_proj_bias")
    return FusedKey{with_dot(parent_of(key)), std::string(leaf.substr(8))};
  if (!holds_all_projections(leaf_of(parent_of(key)))) return std::nullopt;
  return FusedKey{with_dot(parent_of(parent_of(key))), std::string(leaf)};
}

using PartShapes = std::array<core::Shape, 3>;

/// What three parts give along dimension 0; nothing where they differ in another.
std::optional<core::Shape> joined(const PartShapes& parts) {
  core::Shape whole = parts[0];
  if (whole.empty()) return std::nullopt;
  for (std::size_t p = 1; p < parts.size(); ++p) {
    if (parts[p].size() != whole.size()) return std::nullopt;
    for (std::size_t d = 1; d < whole.size(); ++d) {
      if (parts[p][d] != whole[d]) return std::nullopt;
    }
    whole[0] += parts[p][0];
  }
  return whole;
}

/// Three parts of one size, where the weight (rows, columns) says that there are such.
std::optional<PartShapes> equal_parts(const core::Shape& whole, const core::Shape& weight) {
  bool square = weight.size() == 2 && weight[0] == 3 * weight[1];
  if (!square || whole.empty() || whole[0] != weight[0]) return std::nullopt;
  core::Shape part = whole;
  part[0] /= 3;
  return PartShapes{part, part, part};
}

class Projections {
 public:
  explicit Projections(Attempt& attempt) : attempt_(attempt), file_(attempt.file()) {
    for (std::size_t i : attempt.unmatched_file()) by_name_.emplace(file_[i].name, i);
    for (std::size_t t : attempt.unmatched_wanted()) wanted_.emplace(attempt.wanted()[t].key, t);
  }

  void run() {
    for (const auto& [key, t] : wanted_) {
      if (auto fused = parse_fused(key)) try_fuse(std::string(key), t, *fused);
    }
    for (const auto& [key, i] : by_name_) {
      if (auto fused = parse_fused(key)) try_split(std::string(key), i, *fused);
    }
    if (steps_.empty()) return;
    std::erase_if(file_, [](const FileKey& key) { return key.name.empty(); });
    for (FileKey& key : added_) file_.push_back(std::move(key));
    Cause cause{CauseKind::fused_projections,
                fuses_ ? "the model keeps query, key and value in one tensor, the file in three"
                       : "the model keeps query, key and value in three tensors, the file in one"};
    cause.evidence.push_back(steps_.front().text);
    cause.confidence = 0.85;
    attempt_.add(std::move(cause), std::move(steps_), std::move(file_));
  }

 private:
  void try_fuse(const std::string& key, std::size_t t, const FusedKey& fused) {
    const WantedKey& wanted = attempt_.wanted()[t];
    for (const auto& names : kSplit) {
      std::array<std::size_t, 3> parts{};
      PartShapes shapes;
      bool all = true;
      for (std::size_t p = 0; p < 3 && all; ++p) {
        auto found = by_name_.find(fused.parent + std::string(names[p]) + "." + fused.leaf);
        all = found != by_name_.end();
        if (all) parts[p] = found->second;
        if (all) shapes[p] = attempt_.file()[parts[p]].shape;
      }
      std::optional<core::Shape> whole = all ? joined(shapes) : std::nullopt;
      if (!whole || (wanted.shape && *whole != *wanted.shape)) continue;
      FixStep step{FixStep::Kind::fuse, "fuse three projections into " + core::quote(key)};
      step.keys = {key};
      for (std::size_t part : parts) {
        step.keys.push_back(attempt_.file()[part].name);
        file_[part].name.clear();
      }
      added_.push_back({key, *whole, attempt_.file()[parts[0]].dtype});
      steps_.push_back(std::move(step));
      fuses_ = true;
      return;
    }
  }

  /// The shapes that the model wants, or those that the tensor's own say.
  std::optional<PartShapes> parts_of(const FileKey& whole, const std::array<std::size_t, 3>& parts) const {
    PartShapes shapes;
    bool known = true;
    for (std::size_t p = 0; p < 3; ++p) {
      const WantedKey& wanted = attempt_.wanted()[parts[p]];
      known = known && wanted.shape.has_value();
      if (known) shapes[p] = *wanted.shape;
    }
    if (known) return joined(shapes) == whole.shape ? std::optional(shapes) : std::nullopt;
    const std::string module(parent_of(whole.name));
    for (std::string_view name : {".weight", "_weight"}) {
      std::string weight = name == "_weight" ? whole.name.substr(0, whole.name.rfind('_')) : module;
      auto found = by_name_.find(weight + std::string(name));
      if (found != by_name_.end()) return equal_parts(whole.shape, attempt_.file()[found->second].shape);
    }
    return std::nullopt;
  }

  void try_split(const std::string& key, std::size_t i, const FusedKey& fused) {
    for (const auto& names : kSplit) {
      std::array<std::size_t, 3> parts{};
      FixStep step{FixStep::Kind::split, "split " + core::quote(key) + " into three projections"};
      step.keys = {key};
      bool all = true;
      for (std::size_t p = 0; p < 3 && all; ++p) {
        auto found = wanted_.find(fused.parent + std::string(names[p]) + "." + fused.leaf);
        all = found != wanted_.end();
        if (!all) break;
        parts[p] = found->second;
        step.keys.emplace_back(found->first);
      }
      std::optional<PartShapes> shapes = all ? parts_of(attempt_.file()[i], parts) : std::nullopt;
      if (!shapes) continue;
      step.shapes.assign(shapes->begin(), shapes->end());
      for (std::size_t p = 0; p < 3; ++p) added_.push_back({step.keys[p + 1], (*shapes)[p], attempt_.file()[i].dtype});
      file_[i].name.clear();
      steps_.push_back(std::move(step));
      return;
    }
  }

  Attempt& attempt_;
  std::vector<FileKey> file_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::map<std::string, std::size_t, std::less<>> wanted_;
  std::vector<FileKey> added_;
  std::vector<FixStep> steps_;
  bool fuses_ = false;
};

}  // namespace

bool holds_one_projection(std::string_view module) {
  return std::any_of(kSplit.begin(), kSplit.end(),
                     [&](const auto& names) { return std::find(names.begin(), names.end(), module) != names.end(); });
}

bool holds_all_projections(std::string_view module) {
  return std::find(kFused.begin(), kFused.end(), module) != kFused.end();
}

void find_projections(Attempt& attempt) {
  Projections(attempt).run();
}

}  // namespace ckpt::detail
