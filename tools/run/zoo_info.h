#pragma once
// ckpt zoo info: what a known model, or the model of a folder, is built from, and what it needs.
// Thread safety: one thread. Use: return run_zoo_info(context, options);

#include "tools/run/run_options.h"

namespace cli {

/// Exit code 0. Errors: Error(usage) for a name that is neither a known model or family nor a folder; those of
/// zoo::folder_config() and of building the model, which name the field that is not here.
int run_zoo_info(Context& context, const ZooInfoOptions& options);

}  // namespace cli
