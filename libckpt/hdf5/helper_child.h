#pragma once
// The helper program while it runs: a descriptor as its standard input, what it says gathered from a pipe, a bound on
// the time it takes. Whoever lets go of it ends it. Thread safety: one owner.
// Use: HelperChild child({"walk", "0"}, fd, 10); while (child.hear() == HelperChild::Heard::more) {}

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "libckpt/io/byte_cursor.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/pending_files.h"
#include "libcore/base/bytes.h"

namespace ckpt::detail {

class HelperChild {
 public:
  /// Starts it with `input` as standard input; it has `seconds` from now on. Errors: those of find_hdf5_helper;
  /// Error(io) when it cannot be started.
  HelperChild(const std::vector<std::string>& arguments, int input, std::uint64_t seconds);
  HelperChild(const HelperChild&) = delete;
  HelperChild& operator=(const HelperChild&) = delete;
  ~HelperChild();

  /// Gives it so much time from now on. A second in which this process was stopped as a whole costs nothing.
  void allow(std::uint64_t seconds);

  enum class Heard : std::uint8_t { more, end, slow };
  /// Waits for a piece of the answer and appends it; `end` when the child has closed its side.
  Heard hear();
  enum class Told : std::uint8_t { all, closed, slow };
  /// Sends bytes into `socket`, the other side of its standard input; `closed` when it does not listen any more.
  Told tell(int socket, core::Bytes bytes);
  const core::ByteVector& answer() const { return answer_; }
  core::ByteVector take_answer() { return std::move(answer_); }

  /// The wait status, or 0 when somebody else took it. A child that lingers after its last word is ended.
  int finish();

 private:
  bool wait(int flags);
  void end_now();
  /// Waits up to a second for `events`; false when the time is used up.
  bool wait_for(int fd, short events);

  pid_t pid_ = -1;
  PendingProcess pending_;
  int status_ = 0;
  bool waiting_ = true;
  Fd from_;
  core::ByteVector answer_;
  core::ByteVector piece_;  ///< that is read into; most are far smaller
  std::chrono::steady_clock::time_point last_;
  std::chrono::steady_clock::duration left_{};
};

/// A copy of `fd` that lies away from 0, 1 and 2, which the child gets, and that no other program inherits.
Fd duplicate_for_helper(int fd);

/// Throws for a wait status that says nothing about what the child was given: std::bad_alloc where it had no memory,
/// Error(io) where another program ended it or it could not be loaded.
void require_no_outer_cause(int status);

/// What the child was at when it last said something, and whether it said its last word.
struct HelperProgress {
  std::string stage = "starting";
  bool complete = false;
};
HelperProgress progress_of(core::Bytes answer);

/// Reads the greeting that every answer begins with: the layers of the sandbox that hold (SandboxLayer). Error(
/// unsupported) for a helper of another version.
std::uint8_t take_hello(ByteCursor& in);

}  // namespace ckpt::detail
