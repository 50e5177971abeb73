#pragma once
// Where a golden program computes: on the CPU, or where the environment variable CKPT_GOLDEN_DEVICE says ("cuda:0",
// with CORE_LOGICAL_DEVICES=opaque:1 a device whose memory the host cannot touch). What is drawn with a seed is drawn
// on the CPU, where the recorded numbers come from, and moved. Use: test::compute_on_golden_device();
// module->to(test::golden_device());

#include <cstdlib>
#include <string>

#include "libcore/backend/opaque/opaque_devices.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/generator.h"

namespace test {

inline core::Device golden_device() {
  const char* name = std::getenv("CKPT_GOLDEN_DEVICE");
  return name != nullptr && *name != '\0' ? core::Device(name) : core::Device();
}
inline bool on_golden_device() {
  return !golden_device().is_cpu();
}
/// New tensors lie there.
inline void compute_on_golden_device() {
  core::set_default_device(golden_device());
}

/// So many logical devices instead of those there are, of the kind that the program computes on; 0: none, or the one it
/// computes on.
inline void set_golden_devices(int count) {
  if (on_golden_device()) {
    core::set_opaque_devices(count == 0 ? 1 : count);
  } else {
    core::set_logical_devices(count);
  }
}
/// Whether something was drawn on it since a seed was given last: other numbers than the CPU's.
inline bool drew_on_golden_device() {
  if (!on_golden_device()) return false;
  const core::Generator generator = core::default_generator(golden_device());
  core::Generator fresh = generator.clone();
  fresh.manual_seed(generator.initial_seed());
  return fresh.state() != generator.state();
}

}  // namespace test
