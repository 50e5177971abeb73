#pragma once
// How the program ends in the middle of its work: by a signal, for want of memory, by what nothing catches. Whatever it
// is doing, it leaves no unfinished file and no helper process behind, and says what happened in at most one line.
// Thread safety: the functions that end the program are for any thread; the others for main() alone.
// Use: end_by_line_when_out_of_memory({...}); end_cleanly_on_signals();

namespace cli {

/// What can be said without allocating.
struct LastWords {
  const char* out_of_memory = "out of memory";
  bool json = false;  ///< the line that exit_code.h's error_json() makes
};

/// From now on memory that cannot be had ends the program with one line on standard error and exit code 4, in every
/// thread, also where C++ would only call std::terminate. Allocates nothing.
void end_by_line_when_out_of_memory(const LastWords& words);

/// From now on SIGINT, SIGTERM and the others that ask a program to end do so at once, and by that signal, so that a
/// shell sees it. Those that the parent ignores stay ignored (nohup).
void end_cleanly_on_signals();

/// Called before the program ends by a signal, for want of memory or by a bug: puts the terminal back. Safe in a signal
/// handler; nullptr for none any more.
void on_sudden_end(void (*restore)());

/// The line and exit code 4.
[[noreturn]] void end_out_of_memory();

}  // namespace cli
