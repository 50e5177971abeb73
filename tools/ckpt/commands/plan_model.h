#pragma once
// The tensors that `ckpt plan` counts: of a file, or of a model that the file is to be loaded into.
// Thread safety: one thread. Use: PlannedModel model = planned_model(options, "best.pth", "resnet50");

#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/analyze/plan.h"
#include "tools/ckpt/line/input.h"

namespace cli {

struct PlannedModel {
  Input input;
  std::string name;  ///< of the model, or the file
  std::vector<ckpt::PlanTensor> tensors;
  std::uint64_t file_bytes = 0;    ///< of the file's model
  std::vector<std::string> notes;  ///< whole sentences: where file and model differ
};

/// `target` is what --for takes, or empty. Errors: those of opening; Error(key) when several state dicts may be meant;
/// Error(usage) for a target that is unknown, or names a key without a shape that the file has not either.
PlannedModel planned_model(const ReadOptions& options, const std::string& file, const std::string& target);

}  // namespace cli
