#pragma once
// System calls of libckpt (io/file_ops.h) of which the k-th fails, writes less than asked, or kills the process; or
// before each of which something else happens. Thread safety: one plan at a time; calls come from one thread.
// Use: FailingCalls calls({.at = 7, .error = EIO}); ckpt::save(...); if (!calls.struck()) ...

#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace test::faults {

enum class CallKind : std::uint8_t {
  open,
  write,
  copy,
  allocate,
  truncate,
  sync,
  close,
  rename,
  link,
  unlink,
  lock,
  make_folder,
};

std::string_view name(CallKind kind);

struct Call {
  CallKind kind;
  std::string file = {};  ///< open, write, close, unlink, make_folder: the name; rename, link: the new one
};

struct CallPlan {
  std::size_t at = SIZE_MAX;  ///< number of the call, from 0
  int error = 0;              ///< errno; 0 with `kill` or `length`
  bool kill = false;          ///< SIGKILL in place of the call
  bool from_then_on = false;  ///< later calls that change something fail as well
  std::size_t length = 0;     ///< write, copy: at most so many bytes, from call `at` on
  std::function<void(const Call& call)> before_each = {};
};

class FailingCalls {
 public:
  explicit FailingCalls(CallPlan plan);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  /// All calls so far, in order.
  const std::vector<Call>& calls() const;
  /// True when the plan came to act.
  bool struck() const;
  /// True when a file whose fsync had failed was given to fsync once more.
  bool repeated_sync() const;

 private:
  struct State;
  static State state_;
};

}  // namespace test::faults
