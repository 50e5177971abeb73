#pragma once
// The switch for reproducible runs, as torch.use_deterministic_algorithms. Kernels of this library give the same bits
// for the same input whether it is on or not: on the CPU for a given number of threads; on GPUs sums and writes to one
// place have an order, convolutions take cuDNN's deterministic algorithms alone, and cuBLAS works in memory of its own
// for each stream. What the switch adds: operations that PyTorch refuses on every device because elements may meet in
// one place (put_ without accumulate, max_unpool1d to 3d) are refused in its words, and what empty(), empty_like(),
// empty_strided(), new_empty() and resize_() leave unwritten is filled: NaN, true, the largest integer; float8 is not.
// Thread safety: one setting for the whole process. Use: core::use_deterministic_algorithms(true);

#include <atomic>
#include <cstdint>
#include <string_view>

namespace core {

class Tensor;

/// `warn_only`: what has no deterministic form warns in place of Error(runtime) "put_ does not have a deterministic
/// implementation, but you set ...".
void use_deterministic_algorithms(bool mode, bool warn_only = false);
bool are_deterministic_algorithms_enabled();
bool is_deterministic_algorithms_warn_only_enabled();

/// The same by one word: "default" (0), "warn" (1), "error" (2). Error(runtime) with PyTorch's text for another.
void set_deterministic_debug_mode(std::string_view mode);
void set_deterministic_debug_mode(int mode);
int get_deterministic_debug_mode();

/// Whether memory is filled while the switch is on: torch.utils.deterministic.fill_uninitialized_memory, true at first.
void set_fill_uninitialized_memory(bool fill);
bool fill_uninitialized_memory();

namespace detail {
inline constinit std::atomic<bool> deterministic{false};

void report_not_deterministic(const char* operation);
/// For an operation whose result may depend on an order that nobody gave.
inline void alert_not_deterministic(const char* operation) {
  if (deterministic.load(std::memory_order_relaxed)) report_not_deterministic(operation);
}
void fill_unwritten(const Tensor& made);
/// What is made without values gets some while the switch is on.
inline void fill_if_deterministic(const Tensor& made) {
  if (deterministic.load(std::memory_order_relaxed)) fill_unwritten(made);
}
}  // namespace detail

}  // namespace core
