#pragma once
// Objects of unknown classes beside the weights of a file that is edited: Lightning keeps pickled modules and losses
// among its settings. A PyTorch file gets them back as they were, with a note; other formats get no such object
// unasked. Thread safety: one thread. Use: carry_objects(checkpoint, {.target = format, ...}, report);

#include <filesystem>
#include <string>

#include "libckpt/checkpoint.h"
#include "libckpt/format/format.h"
#include "libckpt/report.h"
#include "tools/ckpt/line/address.h"

namespace cli {

struct CarryPlan {
  const ckpt::Format* target = nullptr;  ///< null when the name of the output says no format
  Address source;
  std::filesystem::path output;
  bool drop = false;       ///< --drop
  bool asked_for = false;  ///< --foreign-objects
};

/// With --drop, takes out of `checkpoint` the objects that the target is not given, and those that name what attacks
/// use, and says so in `report`.
void leave_out_objects(ckpt::Checkpoint& checkpoint, const CarryPlan& plan, ckpt::Report& report);

/// Makes `checkpoint` fit for the target and says in `report` what became of each object; what the report said of
/// classes that `checkpoint` does not hold is taken out of it. Errors: Error(refused) when the target is another
/// format, or an object names what attacks use, and neither option was given.
void carry_objects(ckpt::Checkpoint& checkpoint, const CarryPlan& plan, ckpt::Report& report);

}  // namespace cli
