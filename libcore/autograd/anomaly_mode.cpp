#include "libcore/autograd/anomaly_mode.h"

#include <execinfo.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>

#include "libcore/autograd/conjugates.h"
#include "libcore/base/error.h"
#include "libcore/base/warning.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"

namespace core {

std::atomic<bool> detail::anomaly_mode{false};

namespace {

std::atomic<bool> check_nan_values{true};

/// The calls that led to a node. Its number tells it from an earlier node at the same address.
struct ForwardCall {
  std::uint64_t sequence_nr = 0;
  std::vector<void*> frames;
};
std::mutex calls_mutex;
std::unordered_map<const Node*, ForwardCall> forward_calls;

std::string call_text(const Node& node) {
  const std::lock_guard lock(calls_mutex);
  const auto found = forward_calls.find(&node);
  if (found == forward_calls.end() || found->second.sequence_nr != node.sequence_nr()) {
    return "No forward pass information available. Enable detect anomaly during forward pass for more information.";
  }
  std::string text = "Traceback of forward call that caused the error:\n";
  const auto& frames = found->second.frames;
  char** lines = backtrace_symbols(frames.data(), static_cast<int>(frames.size()));
  for (std::size_t i = 0; lines != nullptr && i < frames.size(); ++i) text += std::string("  ") + lines[i] + "\n";
  std::free(lines);
  return text;
}

void warn_about(const Node& node) {
  warn("Error detected in " + std::string(node.name()) + ". " + call_text(node));
}

void check_nan(const Node& node, const TensorList& results) {
  const GradModeGuard no_history(false);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined() || !any(isnan(results[i])).item<bool>()) continue;
    warn_about(node);
    throw Error(ErrorCode::runtime, "Function '" + std::string(node.name()) + "' returned nan values in its " +
                                        std::to_string(i) + "th output.");
  }
}

}  // namespace

void set_detect_anomaly(bool mode, bool check_nan) {
  detail::anomaly_mode = mode;
  check_nan_values = check_nan;
  if (mode) return;
  const std::lock_guard lock(calls_mutex);
  forward_calls.clear();
}

bool is_anomaly_enabled() {
  return detail::anomaly_mode_on();
}
bool is_anomaly_check_nan_enabled() {
  return check_nan_values;
}

AnomalyGuard::AnomalyGuard(bool check_nan)
    : previous_(is_anomaly_enabled()), previous_check_(is_anomaly_check_nan_enabled()) {
  warn(
      "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
      "debugging.");
  set_detect_anomaly(true, check_nan);
}
AnomalyGuard::~AnomalyGuard() {
  set_detect_anomaly(previous_, previous_check_);
}

void detail::note_forward(const Node& node) {
  constexpr int kMost = 48;
  void* frames[kMost];
  const int count = backtrace(frames, kMost);
  constexpr int kOwn = 2;  // this function and the node's constructor
  const std::lock_guard lock(calls_mutex);
  forward_calls[&node] = {node.Node::sequence_nr(), {frames + std::min(kOwn, count), frames + count}};
}

TensorList detail::checked_apply(Node& node, TensorList grads, bool directly) {
  TensorList results;
  try {
    results = applied(node, std::move(grads), directly);
  } catch (...) {
    warn_about(node);
    throw;
  }
  if (check_nan_values) check_nan(node, results);
  return results;
}

}  // namespace core
