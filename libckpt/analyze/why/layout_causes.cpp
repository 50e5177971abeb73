// Tensors that hold the right numbers in another arrangement.

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "libckpt/analyze/why/projections.h"
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

/// The other dimensions laid out one after the other, as flatten() does: a Linear layer on the whole map and a
/// convolution with a kernel of the size of that map hold the same numbers in the same order.
bool flattens(const core::Shape& have, const core::Shape& want) {
  const core::Shape& flat = have.size() < want.size() ? have : want;
  const core::Shape& kernel = have.size() < want.size() ? want : have;
  if (flat.size() != 2 || kernel.size() < 3 || flat[0] != kernel[0]) return false;
  return core::try_numel(flat.span()) == core::try_numel(kernel.span());
}

void find_flattened(Attempt& attempt) {
  FixStep step{FixStep::Kind::reshape, ""};
  std::vector<FileKey> file = attempt.file();
  Cause cause{CauseKind::reshaped, ""};
  for (std::size_t t : attempt.mismatched()) {
    FileKey& key = file[static_cast<std::size_t>(attempt.pairing().file_of_wanted[t])];
    const core::Shape& want = *attempt.wanted()[t].shape;
    // Of patches projects differ in what comes first, the channels or the places.
    bool patches = key.name.find("patch") != std::string::npos;
    if (patches || leaf_of(key.name) != "weight" || !flattens(key.shape, want)) continue;
    if (cause.evidence.empty())
      cause.evidence.push_back(core::quote(key.name) + " is " + core::to_list(key.shape) + " in the file, " +
                               core::to_list(want) + " in the model");
    step.keys.push_back(key.name);
    step.shapes.push_back(want);
    key.shape = want;
  }
  if (step.keys.empty()) return;
  step.text = "reshape " + keys_text(step.keys.size(), "weight");
  cause.text = keys_text(step.keys.size(), "weight") + (step.keys.size() == 1 ? " is that" : " are those") +
               " of a convolution on the whole map on one side and of a Linear layer on the other";
  cause.confidence = 0.85;
  attempt.add(std::move(cause), {std::move(step)}, std::move(file));
}

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
  find_flattened(attempt);
  find_projections(attempt);
}

}  // namespace ckpt::detail
