#pragma once
// Makes optimizers and schedules from what the golden data says of them, and writes their state in its JSON form.
// Use: auto optimizer = test::make_optimizer("SGD", {{.params = {w, b}}}, options); if (!optimizer) skip.

#include <memory>
#include <string>
#include <vector>

#include "libcore/optim/optimizer.h"
#include "libcore/optim/schedule.h"
#include "tests/support/golden_json.h"

namespace test {

/// 2 as an int, 2.0 as a float, true as a bool: the printed form depends on it.
core::Scalar scalar(Json value);
core::OptionMap option_map(Json object);
/// Null for a class that libcore does not have.
std::unique_ptr<core::Optimizer> make_optimizer(const std::string& name, std::vector<core::ParamGroup> groups,
                                                Json options);
/// Null for a schedule that libcore does not have. `json` is a case of the section `schedulers`.
std::unique_ptr<core::LRScheduler> make_schedule(core::Optimizer& optimizer, Json json);

/// The state dict as JSON text in the form of the golden data: tensors with dtype, shape and bits.
std::string state_text(const core::OptimizerState& state);
/// Empty when a schedule's state is what the golden data says, keys and their order included; else the first entry that
/// differs.
std::string state_difference(const core::OptionMap& ours, Json wanted);
/// The text of golden JSON with its spaces taken out.
std::string compact(Json json);
/// How far two state texts are apart: 0 when they are equal but for the bits of tensors, which may differ by this
/// relative distance; infinite when they differ in anything else.
double state_distance(const std::string& ours, const std::string& theirs);

}  // namespace test
