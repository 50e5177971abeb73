#include "libcore/parallel/parallel_apply.h"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "libcore/autograd/autocast.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/device_workers.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/tensor/generator.h"

namespace core::detail {
namespace {

/// What a replica threw, as PyTorch would name it.
struct Failure {
  ErrorCode code = ErrorCode::runtime;
  std::string type = "RuntimeError";
  std::string text;
  std::optional<MemoryShortage> shortage;
};

Failure describe(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const OutOfMemoryError& error) {
    return {error.code(), "OutOfMemoryError", error.what(), error.shortage()};
  } catch (const Error& error) {
    return {error.code(), std::string(python_name(error.code())), error.what(), {}};
  } catch (const std::out_of_range& error) {
    return {ErrorCode::index, "IndexError", error.what(), {}};
  } catch (const std::invalid_argument& error) {
    return {ErrorCode::value, "ValueError", error.what(), {}};
  } catch (const std::bad_alloc& error) {
    return {ErrorCode::device, "MemoryError", error.what(), {}};
  } catch (const std::exception& error) {
    return {ErrorCode::runtime, "RuntimeError", error.what(), {}};
  } catch (...) {
    return {ErrorCode::runtime, "RuntimeError", "an exception that is no std::exception", {}};
  }
}

std::string place(std::size_t replica, Device device) {
  return "replica " + std::to_string(replica) + " on device " + std::to_string(device.index());
}

/// Throws the first error with what the others were below it.
void rethrow_first(const std::vector<std::exception_ptr>& errors, const std::vector<Device>& devices) {
  std::size_t first = 0;
  while (first < errors.size() && !errors[first]) ++first;
  if (first == errors.size()) return;
  Failure failure = describe(errors[first]);
  std::string text = "Caught " + failure.type + " in " + place(first, devices[first]) + ".\nOriginal exception: ";
  text += failure.text;
  for (std::size_t i = first + 1; i < errors.size(); ++i) {
    if (!errors[i]) continue;
    Failure other = describe(errors[i]);
    text += "\nAlso failed: " + place(i, devices[i]) + " (" + other.type + ": " + other.text + ")";
  }
  try {
    std::rethrow_exception(errors[first]);
  } catch (...) {
    if (failure.shortage) std::throw_with_nested(OutOfMemoryError(text, *failure.shortage));
    std::throw_with_nested(Error(failure.code, text));
  }
}

/// Where the devices' streams of random numbers stood; restore() puts them back.
class RandomPositions {
 public:
  explicit RandomPositions(const std::vector<Device>& devices) {
    for (Device device : devices) {
      if (!device.is_cuda()) continue;
      Generator generator = default_generator(device);
      saved_.emplace_back(generator, generator.state());
    }
  }
  void restore() {
    for (auto& [generator, state] : saved_) generator.set_state(state);
  }

 private:
  std::vector<std::pair<Generator, ByteVector>> saved_;
};

}  // namespace

void check_count(std::size_t modules, std::size_t others, std::string_view what) {
  if (modules == others) return;
  throw Error(ErrorCode::assertion, "The number of modules " + std::to_string(modules) +
                                        " is not equal to the number of " + std::string(what) + " " +
                                        std::to_string(others));
}

void run_replicas(const std::vector<Device>& devices, RunReplica run, void* context) {
  bool grad = is_grad_enabled();
  const AutocastMode autocast = autocast_mode;
  auto count = static_cast<int>(devices.size());
  int threads_each = std::max(1, num_threads() / std::max(1, count));
  RandomPositions random(devices);
  std::vector<std::exception_ptr> errors(devices.size());
  core::run_on_workers(count, [&](int slot) {
    auto replica = static_cast<std::size_t>(slot);
    GradModeGuard mode(grad);
    const AutocastModeGuard same_casts(autocast);
    ThreadLimitGuard limit(threads_each);
    try {
      cuda::DeviceGuard current(devices[replica]);
      run(context, replica);
    } catch (...) {
      errors[replica] = std::current_exception();
    }
  });
  if (std::none_of(errors.begin(), errors.end(), [](const auto& error) { return error != nullptr; })) return;
  random.restore();
  rethrow_first(errors, devices);
}

}  // namespace core::detail
