#pragma once
// ckpt zoo run: what it does. Thread safety: one thread. Use: return run_zoo(context, options);

#include "tools/run/run_options.h"

namespace cli {

/// Exit code 0. Errors: those of prepare_model(), read_input() and call_model(); Error(usage) for labels or a prompt
/// that do not fit the model.
int run_zoo(Context& context, const RunOptions& options);

}  // namespace cli
