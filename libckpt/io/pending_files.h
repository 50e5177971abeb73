#pragma once
// What must not outlive the process: files that are not finished, and helper processes. Whoever makes one claims a
// place in a fixed table before and lets go of it afterwards. A library installs no signal handlers: a program that is
// to leave nothing behind calls remove_pending() in its own, just before it ends. Thread safety: all of it;
// remove_pending() may be called in a signal handler. Use: Step step; PendingFile pending(folder_fd, name); Fd
// fd(openat(folder_fd, name, O_CREAT));

#include <signal.h>
#include <sys/types.h>

#include <string_view>
#include <utility>

namespace ckpt {

/// Removes the files and kills the processes of the table, for a program that ends right after: another thread that
/// makes or places a file from then on waits for that end. Allocates nothing, takes no locks.
void remove_pending();

namespace detail {

/// While a Step lives, signals wait in this thread and remove_pending() in others (for a moment: a step that hangs does
/// not keep the program from ending). So a file is made and claimed, or placed and let go of, in one.
class Step {
 public:
  Step();
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  sigset_t old_signals_;
};

/// What stands in the table until this goes.
class Pending {
 public:
  Pending() = default;
  Pending(Pending&& other) noexcept : place_(std::exchange(other.place_, -1)) {}
  Pending& operator=(Pending&& other) noexcept {
    std::swap(place_, other.place_);
    return *this;
  }
  ~Pending() { let_go(); }
  /// False also where the table was full: then the end of the program leaves as much as a kill.
  bool is_claimed() const { return place_ >= 0; }
  void let_go();

 protected:
  enum Kind : int { kFile = 2, kPart, kFolder, kProcess };
  Pending(Kind kind, int number, std::string_view name);

 private:
  int place_ = -1;  ///< -1: not in the table
};

/// A file that may be removed whenever the program ends. REQUIRES: `folder` stays open as long as this.
class PendingFile : public Pending {
 public:
  PendingFile() = default;
  PendingFile(int folder, std::string_view name) : Pending(kFile, folder, name) {}
};

/// A file that belongs to others, which a Step keeps or drops together: not removed in the middle of one.
class PendingPart : public Pending {
 public:
  PendingPart(int folder, std::string_view name) : Pending(kPart, folder, name) {}
};

/// A folder that goes if it is empty.
class PendingFolder : public Pending {
 public:
  PendingFolder(int parent, std::string_view name) : Pending(kFolder, parent, name) {}
};

/// A child of this process. REQUIRES: let go of in the Step in which it is waited for.
class PendingProcess : public Pending {
 public:
  PendingProcess() = default;
  explicit PendingProcess(pid_t pid) : Pending(kProcess, pid, "") {}
};

}  // namespace detail
}  // namespace ckpt
