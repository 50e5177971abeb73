#pragma once
// Anomaly detection, as torch.autograd.detect_anomaly: a backward that makes NaN, or fails, says which forward
// operation it belongs to and where that was called. Slow; for debugging.
// Thread safety: one setting for the whole process. Use: { core::AnomalyGuard find; loss.backward(); }

#include <atomic>

#include "libcore/autograd/node.h"

namespace core {

/// While on, a gradient with NaN is Error(runtime) "Function 'SqrtBackward0' returned nan values in its 0th output.",
/// after a warning "Error detected in SqrtBackward0. ..." with the stack of the forward call, if that ran in this mode
/// too. check_nan: false only gives the warning when a backward fails by itself.
void set_detect_anomaly(bool mode, bool check_nan = true);
bool is_anomaly_enabled();
bool is_anomaly_check_nan_enabled();

/// The same for a scope. Warns on entry as PyTorch does.
class AnomalyGuard {
 public:
  explicit AnomalyGuard(bool check_nan = true);
  ~AnomalyGuard();
  AnomalyGuard(const AnomalyGuard&) = delete;
  AnomalyGuard& operator=(const AnomalyGuard&) = delete;

 private:
  bool previous_;
  bool previous_check_;
};

namespace detail {
extern std::atomic<bool> anomaly_mode;
inline bool anomaly_mode_on() {
  return anomaly_mode.load(std::memory_order_relaxed);
}
/// Remembers where `node` is recorded.
void note_forward(const Node& node);
/// node.apply(), with the checks above.
TensorList checked_apply(Node& node, TensorList grads, bool directly);
}  // namespace detail

}  // namespace core
