#pragma once
// Which parameter of a model an optimizer's numbers mean. Optimizers number parameters in the order in which they were
// given them: all of the model's, those that are trained, or sorted into groups (commonly with and without weight
// decay). Shapes of the state are the evidence. Internal to optimizer.cpp. Thread safety: pure.
// Use: std::vector<NameMatch> names = match_names(groups, model_parameters(state_dict));

#include <optional>
#include <string>
#include <vector>

#include "libckpt/transform/optimizer.h"
#include "libcore/base/shape.h"

namespace ckpt::detail {

struct ModelParameter {
  std::string name;
  core::Shape shape;
};

/// Parameters of a state dict in order; of tied ones the first, as Module.parameters() has it; no buffers.
std::vector<ModelParameter> model_parameters(const Value& state_dict);

/// Shapes of the parameters of one group, as far as their state says.
using GroupShapes = std::vector<std::optional<core::Shape>>;

struct NameMatch {
  NameEvidence evidence = NameEvidence::unknown;
  std::string name;
  std::string candidates;
};

/// One match a parameter, group by group.
std::vector<NameMatch> match_names(const std::vector<GroupShapes>& groups, const std::vector<ModelParameter>& model);

}  // namespace ckpt::detail
