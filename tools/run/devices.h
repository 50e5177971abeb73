#pragma once
// ckpt devices: what it does. Thread safety: one thread. Use: return run_devices(context, options);

#include "tools/run/run_options.h"

namespace cli {

/// Exit code 0, also without devices: the CPU is always there. Error(device) for --measure without a device.
int run_devices(Context& context, const DevicesOptions& options);

}  // namespace cli
