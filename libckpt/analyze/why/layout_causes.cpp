// Tensors that hold the right numbers in another arrangement.

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "libckpt/analyze/why/shape_causes.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using Order = std::vector<std::size_t>;

core::Shape permuted(const core::Shape& shape, const Order& order) {
  core::Shape out;
  for (std::size_t from : order) out.push_back(shape[from]);
  return out;
}

/// How the dimensions of the file's tensor have to go to give the wanted shape: Linear (in, out), convolutions with
/// channels last. Empty when no usual order does.
Order order_for(const core::Shape& have, const core::Shape& want) {
  static const std::array<Order, 4> kOrders = {Order{1, 0}, Order{2, 1, 0}, Order{3, 2, 0, 1}, Order{4, 3, 0, 1, 2}};
  if (have.size() != want.size() || have == want) return {};
  for (const Order& order : kOrders) {
    if (order.size() == have.size() && permuted(have, order) == want) return order;
  }
  return {};
}

std::string pattern_of(std::string_view key) {
  std::string out;
  for (std::string_view part : core::split(key, '.')) {
    out += is_number(part) ? "#" : std::string(part);
    out += '.';
  }
  return out;
}

bool is_table(std::string_view key) {
  for (std::string_view word : {"embed", "wte", "wpe", "token", "position", "lm_head"}) {
    if (key.find(word) != std::string_view::npos) return true;
  }
  return false;
}

/// Square matrices do not tell by their shape; their neighbours do.
class SquareJudge {
 public:
  explicit SquareJudge(const Attempt& attempt) {
    for (std::size_t t = 0; t < attempt.wanted().size(); ++t) {
      std::ptrdiff_t at = attempt.pairing().file_of_wanted[t];
      const WantedKey& wanted = attempt.wanted()[t];
      if (at < 0 || !wanted.shape || wanted.shape->size() != 2 || is_table(wanted.key)) continue;
      const core::Shape& have = attempt.file()[static_cast<std::size_t>(at)].shape;
      if ((*wanted.shape)[0] == (*wanted.shape)[1]) continue;
      bool turned = !order_for(have, *wanted.shape).empty();
      if (!turned && have != *wanted.shape) continue;
      (turned ? turned_ : straight_).insert(neighbourhood(wanted.key));
      ++(turned ? turned_count_ : straight_count_);
    }
  }
  bool turned(std::string_view key) const {
    if (is_table(key)) return false;
    std::string around = neighbourhood(key);
    if (turned_.contains(around) || straight_.contains(around)) return !straight_.contains(around);
    return turned_count_ >= 2 && straight_count_ == 0;
  }

 private:
  static std::string neighbourhood(std::string_view key) { return pattern_of(parent_of(parent_of(key))); }

  std::set<std::string> turned_;
  std::set<std::string> straight_;
  std::size_t turned_count_ = 0;
  std::size_t straight_count_ = 0;
};

std::string keys_text(std::size_t count, std::string_view what) {
  return core::format_count(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

void find_transposed(Attempt& attempt) {
  std::map<Order, FixStep> steps;
  std::vector<FileKey> file = attempt.file();
  SquareJudge squares(attempt);
  std::size_t turned = 0;
  std::vector<std::string> square;
  std::vector<std::string> evidence;
  for (std::size_t t = 0; t < attempt.wanted().size(); ++t) {
    std::ptrdiff_t at = attempt.pairing().file_of_wanted[t];
    const WantedKey& wanted = attempt.wanted()[t];
    if (at < 0 || !wanted.shape) continue;
    FileKey& key = file[static_cast<std::size_t>(at)];
    Order order = order_for(key.shape, *wanted.shape);
    bool is_square = key.shape.size() == 2 && key.shape == *wanted.shape && key.shape[0] == key.shape[1];
    if (order.empty() && !(is_square && squares.turned(wanted.key))) continue;
    if (order.empty()) {
      order = {1, 0};
      square.push_back(wanted.key);
    } else {
      ++turned;
      if (evidence.size() < 3)
        evidence.push_back(core::quote(key.name) + " is " + core::to_list(key.shape) + " in the file, " +
                           core::to_list(*wanted.shape) + " in the model");
    }
    FixStep& step = steps.try_emplace(order, FixStep{FixStep::Kind::transpose, ""}).first->second;
    step.order = order;
    step.keys.push_back(key.name);
    key.shape = *wanted.shape;
  }
  if (turned == 0) return;
  Cause cause{
      CauseKind::transposed,
      keys_text(turned, "tensor") + " have their dimensions in another order, as layers that keep (in, out) save them"};
  cause.evidence = std::move(evidence);
  if (!square.empty()) cause.evidence.push_back("square matrices beside them are turned too: " + some_names(square));
  cause.confidence = square.empty() ? 0.95 : 0.85;
  std::vector<FixStep> list;
  for (auto& [order, step] : steps) {
    step.text = "transpose " + keys_text(step.keys.size(), "tensor");
    list.push_back(std::move(step));
  }
  attempt.add(std::move(cause), std::move(list), std::move(file));
}

std::vector<std::int64_t> without_ones(const core::Shape& shape) {
  std::vector<std::int64_t> out;
  for (std::int64_t size : shape) {
    if (size != 1) out.push_back(size);
  }
  return out;
}

void find_reshaped(Attempt& attempt) {
  FixStep step{FixStep::Kind::reshape, ""};
  std::vector<FileKey> file = attempt.file();
  std::string example;
  for (std::size_t t : attempt.mismatched()) {
    FileKey& key = file[static_cast<std::size_t>(attempt.pairing().file_of_wanted[t])];
    const core::Shape& want = *attempt.wanted()[t].shape;
    if (without_ones(key.shape) != without_ones(want)) continue;
    if (example.empty())
      example = core::quote(key.name) + " is " + core::to_list(key.shape) + " in the file, " + core::to_list(want) +
                " in the model";
    step.keys.push_back(key.name);
    step.shapes.push_back(want);
    key.shape = want;
  }
  if (step.keys.empty()) return;
  step.text = "reshape " + keys_text(step.keys.size(), "tensor");
  Cause cause{CauseKind::reshaped,
              keys_text(step.keys.size(), "tensor") + " differ from the model's in dimensions of size 1 alone"};
  cause.evidence.push_back(example);
  cause.confidence = 0.95;
  attempt.add(std::move(cause), {std::move(step)}, std::move(file));
}

/// How projects call the three projections, and the one that holds all of them.
constexpr std::array<std::array<std::string_view, 3>, 4> kSplit = {
    {{"q_proj", "k_proj", "v_proj"}, {"query", "key", "value"}, {"q", "k", "v"}, {"wq", "wk", "wv"}}};
constexpr std::array<std::string_view, 4> kFused = {"qkv", "Wqkv", "qkv_proj", "in_proj"};

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
  std::string_view module = leaf_of(parent_of(key));
  if (std::find(kFused.begin(), kFused.end(), module) == kFused.end()) return std::nullopt;
  return FusedKey{with_dot(parent_of(parent_of(key))), std::string(leaf)};
}

/// Three parts of `whole` along dimension 0.
bool adds_up(const core::Shape& whole, const std::array<core::Shape, 3>& parts) {
  std::int64_t rows = 0;
  for (const core::Shape& part : parts) {
    if (whole.empty() || part.size() != whole.size()) return false;
    for (std::size_t d = 1; d < whole.size(); ++d) {
      if (part[d] != whole[d]) return false;
    }
    rows += part[0];
  }
  return rows == whole[0];
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
      std::array<core::Shape, 3> shapes;
      bool all = true;
      for (std::size_t p = 0; p < 3 && all; ++p) {
        auto found = by_name_.find(fused.parent + std::string(names[p]) + "." + fused.leaf);
        all = found != by_name_.end();
        if (all) parts[p] = found->second;
        if (all) shapes[p] = attempt_.file()[parts[p]].shape;
      }
      if (!all || !wanted.shape || !adds_up(*wanted.shape, shapes)) continue;
      FixStep step{FixStep::Kind::fuse, "fuse three projections into " + core::quote(key)};
      step.keys = {key};
      for (std::size_t part : parts) {
        step.keys.push_back(attempt_.file()[part].name);
        file_[part].name.clear();
      }
      added_.push_back({key, *wanted.shape, attempt_.file()[parts[0]].dtype});
      steps_.push_back(std::move(step));
      fuses_ = true;
      return;
    }
  }

  void try_split(const std::string& key, std::size_t i, const FusedKey& fused) {
    for (const auto& names : kSplit) {
      std::array<core::Shape, 3> shapes;
      FixStep step{FixStep::Kind::split, "split " + core::quote(key) + " into three projections"};
      step.keys = {key};
      bool all = true;
      for (std::size_t p = 0; p < 3 && all; ++p) {
        std::string part = fused.parent + std::string(names[p]) + "." + fused.leaf;
        auto found = wanted_.find(part);
        all = found != wanted_.end() && attempt_.wanted()[found->second].shape;
        if (!all) break;
        shapes[p] = *attempt_.wanted()[found->second].shape;
        step.keys.push_back(part);
        step.shapes.push_back(shapes[p]);
      }
      if (!all || !adds_up(attempt_.file()[i].shape, shapes)) continue;
      for (std::size_t p = 0; p < 3; ++p) added_.push_back({step.keys[p + 1], shapes[p], attempt_.file()[i].dtype});
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

std::string some_names(const std::vector<std::string>& names, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) out += (i == 0 ? "" : ", ") + core::quote(names[i]);
  if (names.size() > most) out += " and " + core::format_count(names.size() - most) + " more";
  return out;
}

void find_layout_causes(Attempt& attempt) {
  find_transposed(attempt);
  find_reshaped(attempt);
  Projections(attempt).run();
}

}  // namespace ckpt::detail
