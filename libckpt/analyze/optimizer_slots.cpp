// What optimizers keep for each parameter.

#include <algorithm>
#include <array>

#include "libckpt/analyze/plan.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

/// A state tensor of an optimizer.
struct Slot {
  enum class Form : std::uint8_t { like_parameter, counter, rows, columns };
  std::string_view name;
  Form form = Form::like_parameter;
  std::string_view option = {};  ///< there only with it
};

struct StateKind {
  std::string_view name;
  std::vector<Slot> slots;
};

constexpr Slot kStep = {"step", Slot::Form::counter};

const std::vector<StateKind>& kinds() {
  using Form = Slot::Form;
  static const std::vector<StateKind> all = {
      {"sgd", {{"momentum_buffer", Form::like_parameter, "momentum"}}},
      {"adam", {kStep, {"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", Form::like_parameter, "amsgrad"}}},
      {"adamw", {kStep, {"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", Form::like_parameter, "amsgrad"}}},
      {"rmsprop",
       {kStep,
        {"square_avg"},
        {"momentum_buffer", Form::like_parameter, "momentum"},
        {"grad_avg", Form::like_parameter, "centered"}}},
      {"adagrad", {kStep, {"sum"}}},
      {"adadelta", {kStep, {"square_avg"}, {"acc_delta"}}},
      {"adamax", {kStep, {"exp_avg"}, {"exp_inf"}}},
      {"nadam", {kStep, {"mu_product", Form::counter}, {"exp_avg"}, {"exp_avg_sq"}}},
      {"radam", {kStep, {"exp_avg"}, {"exp_avg_sq"}}},
      {"asgd", {kStep, {"eta", Form::counter}, {"mu", Form::counter}, {"ax"}}},
      {"rprop", {kStep, {"prev"}, {"step_size"}}},
      {"adafactor", {kStep, {"row_var", Form::rows}, {"col_var", Form::columns}}},
      {"muon", {{"momentum_buffer"}}},
  };
  return all;
}

/// "adam+amsgrad" taken apart.
struct Chosen {
  const StateKind* kind;
  std::vector<std::string> options;
  bool has(std::string_view option) const { return std::find(options.begin(), options.end(), option) != options.end(); }
};

std::vector<std::string> options_of(const StateKind& kind) {
  std::vector<std::string> out;
  for (const Slot& slot : kind.slots) {
    if (!slot.option.empty()) out.emplace_back(slot.option);
  }
  return out;
}

Chosen chosen_optimizer(const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  const std::vector<std::string_view> words = core::split(lower, '+');
  auto found =
      std::find_if(kinds().begin(), kinds().end(), [&](const StateKind& kind) { return kind.name == words[0]; });
  if (found == kinds().end()) {
    throw Error(ErrorCode::usage,
                core::quote(text) + " is no optimizer whose state is known: " + core::join(optimizer_names(), ", "));
  }
  Chosen chosen{&*found, {}};
  const std::vector<std::string> known = options_of(*found);
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (std::find(known.begin(), known.end(), words[i]) == known.end()) {
      throw Error(ErrorCode::usage, core::quote(text) + ": " + std::string(found->name) +
                                        (known.empty() ? " has no option that changes its state"
                                                       : " keeps more only with " + core::join(known, " or ")));
    }
    chosen.options.emplace_back(words[i]);
  }
  return chosen;
}

core::Shape with_one(core::Shape shape, std::size_t from_end) {
  shape.data()[shape.size() - from_end] = 1;
  return shape;
}

StateSlot slot_of(const Slot& slot, const PlanTensor& parameter) {
  const bool flat = parameter.shape.size() < 2;
  switch (slot.form) {
    case Slot::Form::counter:
      return {std::string(slot.name), core::DType::f32, {}, true};
    case Slot::Form::rows:
      if (flat) return {"variance", parameter.dtype, parameter.shape};
      return {std::string(slot.name), parameter.dtype, with_one(parameter.shape, 1)};
    case Slot::Form::columns:
      return {std::string(slot.name), parameter.dtype, with_one(parameter.shape, 2)};
    case Slot::Form::like_parameter:
      break;
  }
  return {std::string(slot.name), parameter.dtype, parameter.shape};
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> out;
  for (const StateKind& kind : kinds()) out.emplace_back(kind.name);
  return out;
}

std::vector<StateSlot> optimizer_state_of(const std::string& optimizer, const PlanTensor& parameter) {
  const Chosen chosen = chosen_optimizer(optimizer);
  if (chosen.kind->name == "muon" && parameter.shape.size() != 2) {
    throw Error(ErrorCode::value, "muon takes matrices alone, and " + core::quote(parameter.name) + " is " +
                                      core::to_list(parameter.shape) + "; plan those that it is to train");
  }
  std::vector<StateSlot> out;
  for (const Slot& slot : chosen.kind->slots) {
    if (!slot.option.empty() && !chosen.has(slot.option)) continue;
    if (slot.form == Slot::Form::columns && parameter.shape.size() < 2) continue;
    out.push_back(slot_of(slot, parameter));
  }
  return out;
}

}  // namespace ckpt
