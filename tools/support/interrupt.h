#pragma once
// Ctrl-C while something is being written: the signal is noted, the work stops at its next step, and what was begun is
// cleaned up before the program ends by that signal. A second one ends it at once.
// Thread safety: one guard at a time. Use: InterruptGuard guard; ... throw_if_interrupted();

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

/// Error(io) "interrupted" when a signal came.
void throw_if_interrupted();

/// Ends the program by the signal that came, so that a shell sees what happened. Returns when there was none.
void finish_interrupt();

}  // namespace cli
