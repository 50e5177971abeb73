#include "libcore/parallel/parallel_apply.h"

#include <algorithm>
#include <exception>
#include <string>

#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/device_workers.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"

namespace core::detail {
namespace {

[[noreturn]] void rethrow_from(std::size_t replica, Device device) {
  std::string where = " in replica " + std::to_string(replica) + " on device " + std::to_string(device.index()) +
                      ".\nOriginal exception: ";
  try {
    throw;
  } catch (const Error& error) {
    throw Error(error.code(), "Caught " + std::string(python_name(error.code())) + where + error.what());
  } catch (const std::exception& error) {
    throw Error(ErrorCode::runtime, "Caught RuntimeError" + where + error.what());
  }
}

}  // namespace

void run_replicas(const std::vector<Device>& devices, RunReplica run, void* context) {
  bool grad = is_grad_enabled();
  auto count = static_cast<int>(devices.size());
  int threads_each = std::max(1, num_threads() / std::max(1, count));
  core::run_on_workers(count, [&](int slot) {
    auto replica = static_cast<std::size_t>(slot);
    GradModeGuard mode(grad);
    cuda::DeviceGuard current(devices[replica]);
    ThreadLimitGuard limit(threads_each);
    try {
      run(context, replica);
    } catch (...) {
      rethrow_from(replica, devices[replica]);
    }
  });
}

}  // namespace core::detail
