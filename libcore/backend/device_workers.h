#pragma once
// One long-lived thread per device slot, so that what a device computes always runs on the same thread: its caches, its
// OpenMP team and its current device stay. Used by backward over several devices and by DataParallel.
// Thread safety: run_on_workers may be called by several threads; calls take turns. Calls from a worker run in place.
// Use: core::run_on_workers(3, [&](int slot) { replicas[slot](inputs[slot]); });

#include <exception>
#include <vector>

namespace core {

/// True on a thread that is running a slot: further calls run their slots one after the other.
bool on_device_worker();

namespace detail {
using SlotFunction = void (*)(void* context, int slot);
void run_on_workers(int count, SlotFunction function, void* context);
}  // namespace detail

/// body(0) on the calling thread and body(1) ... body(count - 1) on workers, at the same time; the caller's current
/// streams are the workers' too. Returns when all are done; then the exception of the lowest slot that threw is thrown
/// on.
template <class Body>
void run_on_workers(int count, Body&& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  auto guarded = [&](int slot) {
    try {
      body(slot);
    } catch (...) {
      errors[static_cast<std::size_t>(slot)] = std::current_exception();
    }
  };
  detail::run_on_workers(
      count, [](void* context, int slot) { (*static_cast<decltype(guarded)*>(context))(slot); }, &guarded);
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace core
