#pragma once
// Whole modules: torch.save(model) pickles the module's class and its attributes. Where the caller keeps foreign
// objects, the parameters and buffers in them become the state dict that model.state_dict() would have given; the
// class, its code and its other attributes are left out. Thread safety: pure. Use: with_module_tensors(root, report)

#include "libckpt/report.h"
#include "libckpt/value.h"

namespace ckpt {

/// `root` with every pickled module in it replaced by its state dict. Each is named in report->warnings (may be null).
Value with_module_tensors(Value root, Report* report);

}  // namespace ckpt
