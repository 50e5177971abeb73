#pragma once
// Ctrl-C in work that has a good place to stop, such as behind a training step: the signal is noted, the work finishes
// its step and saves, and the program ends by that signal. A second one ends it at once.
// Thread safety: one guard at a time. Use: InterruptGuard guard; ... if (pending_interrupt() != 0) break;

#include <csignal>

namespace cli {

class InterruptGuard {
 public:
  InterruptGuard();
  /// Puts the former handlers back.
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction old_[3] = {};
};

/// The signal that came while a guard stood, 0 for none.
int pending_interrupt();

/// Ends the program by the signal that came, so that a shell sees what happened. Returns when there was none.
void finish_interrupt();

}  // namespace cli
