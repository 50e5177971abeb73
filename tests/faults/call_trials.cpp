// Errors, short writes, kills and a second writer at every call of an operation.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libckpt/io/atomic_file.h"
#include "libckpt/io/atomic_folder.h"
#include "libckpt/io/undo_record.h"
#include "libcore/base/error.h"
#include "tests/faults/failing_calls.h"
#include "tests/faults/trials.h"
#include "tests/faults/verdict.h"

namespace test::faults {
namespace {

namespace fs = std::filesystem;
using Kind = CallKind;

struct NamedError {
  int error;
  const char* name;
};

constexpr NamedError kFull{ENOSPC, "ENOSPC"};
constexpr NamedError kQuota{EDQUOT, "EDQUOT"};
constexpr NamedError kDevice{EIO, "EIO"};
constexpr NamedError kReadOnly{EROFS, "EROFS"};
constexpr NamedError kFiles{EMFILE, "EMFILE"};
constexpr NamedError kRights{EACCES, "EACCES"};
constexpr NamedError kSignal{EINTR, "EINTR"};
constexpr NamedError kTooLarge{EFBIG, "EFBIG"};
constexpr NamedError kNotHere{EOPNOTSUPP, "EOPNOTSUPP"};
constexpr NamedError kOtherDevice{EXDEV, "EXDEV"};
constexpr NamedError kNoLocks{ENOLCK, "ENOLCK"};

/// What a call of this kind may report.
std::vector<NamedError> errors_of(Kind kind) {
  switch (kind) {
    case Kind::open:
      return {kFull, kQuota, kDevice, kReadOnly, kFiles, kRights, kSignal};
    case Kind::write:
      return {kFull, kQuota, kDevice, kTooLarge, kSignal};
    case Kind::copy:
      return {kFull, kQuota, kDevice, kTooLarge, kSignal, kNotHere, kOtherDevice};
    case Kind::allocate:
      return {kFull, kQuota, kDevice, kTooLarge, kSignal, kNotHere};
    case Kind::truncate:
    case Kind::sync:
    case Kind::close:
      return {kFull, kQuota, kDevice, kReadOnly, kSignal};
    case Kind::rename:
    case Kind::link:
    case Kind::make_folder:
      return {kFull, kQuota, kDevice, kReadOnly, kRights};
    case Kind::unlink:
      return {kDevice, kReadOnly, kRights};
    case Kind::lock:
      return {kDevice, kNoLocks, kSignal};
  }
  return {};
}

/// Whether an operation that meets this error has to say that it failed. What remains shows in the folder, or has
/// another way: a copy by reading and writing, a disk without reservation, leftovers that go with the next save.
bool must_be_told(const Call& call, int error) {
  Kind kind = call.kind;
  if (ckpt::detail::is_undo_name(call.file)) return false;  // the edit stands, and cannot be taken back
  if (error == EINTR) return kind == Kind::sync;
  return kind == Kind::write || kind == Kind::truncate || kind == Kind::close || kind == Kind::sync;
}

std::vector<Call> calls_of(const Operation& operation, const fs::path& folder) {
  write_folder(folder, start_of(operation));
  FailingCalls calls({});
  operation.run(folder);
  return calls.calls();
}

/// What the operation said: "" for success.
std::string answer_of(const Operation& operation, const fs::path& folder) {
  try {
    operation.run(folder);
  } catch (const core::Error& error) {
    std::string text = error.what();
    return error.code() == core::ErrorCode::io ? text : "of a wrong kind: " + text;
  }
  return "";
}

/// Whether one of the warnings is of the file.
bool is_named(const std::vector<std::string>& warnings, const std::string& file) {
  return std::any_of(warnings.begin(), warnings.end(),
                     [&](const std::string& text) { return text.find(file) != std::string::npos; });
}

struct ErrorTrial {
  const Setup& setup;
  const Operation& operation;
  Tally& tally;
  Judge judge{operation, setup.scratch / "judged"};
  fs::path folder = setup.scratch / "failing";

  void run(const Call& call, CallPlan plan, const std::string& faults, const std::string& error_name) {
    std::string place = operation.name + ", call " + std::to_string(plan.at) + " (" + std::string(name(call.kind)) +
                        ") " + error_name + (plan.from_then_on ? " from then on" : "");
    write_folder(folder, start_of(operation));
    std::string said;
    bool repeated = false;
    bool unlinked = true;
    {
      FailingCalls calls(plan);
      said = answer_of(operation, folder);
      if (plan.length == 0 && !calls.struck()) throw std::runtime_error(place + ": the fault did not happen");
      repeated = calls.repeated_sync();
      unlinked = !plan.from_then_on && call.kind != Kind::unlink;
    }
    tally.add_point(operation.group, faults);
    std::vector<std::string> warnings = last_report().warnings;
    Folder state = unlinked ? read_folder(folder) : after_reboot(read_folder(folder));
    std::string wrong;
    bool unknown = said.find("durability is unknown") != std::string::npos;
    if (repeated) wrong = "an fsync that had failed was repeated";
    if (said.empty() && plan.length == 0 && must_be_told(call, plan.error)) wrong = "success was reported";
    if (said.starts_with("of a wrong kind")) wrong = said;
    if (wrong.empty())
      wrong = judge.verdict(state, unknown ? Claim::none : said.empty() ? Claim::success : Claim::failure);
    for (const std::string& file : judge.leftovers(state)) {
      bool told = judge.is_stranded(file, state) && is_named(warnings, file);
      told |= operation.left_over.count(file) > 0;  // it was there before
      if (wrong.empty() && unlinked && !unknown && !told) wrong = "left behind without a word: " + file;
    }
    if (!wrong.empty())
      tally.add_violation(operation.group, faults,
                          place + ": " + wrong + (said.empty() ? "" : " (it said: " + said + ")"));
  }
};

/// Runs the operation in a child that is killed in place of call `at`; false when it ended by itself.
bool is_killed_at(const Operation& operation, const fs::path& folder, std::size_t at) {
  pid_t child = ::fork();
  if (child == 0) {
    try {
      FailingCalls calls({.at = at, .kill = true});
      operation.run(folder);
    } catch (...) {
      ::_exit(9);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

void kill_everywhere(const Setup& setup, const Operation& operation, const std::string& faults, Tally& tally,
                     int rounds) {
  Judge judge(operation, setup.scratch / "judged");
  fs::path folder = setup.scratch / "killed";
  std::size_t count = calls_of(operation, folder).size();
  for (std::size_t at = 0; at < count; ++at) {
    if (setup.stop_at_violation && tally.violations() > 0) return;
    write_folder(folder, start_of(operation));
    if (!is_killed_at(operation, folder, at)) throw std::runtime_error(operation.name + ": no call to be killed at");
    tally.add_point(operation.group, faults);
    Folder state = read_folder(folder);
    std::string wrong = judge.verdict(state, Claim::none);
    if (!wrong.empty()) {
      tally.add_violation(operation.group, faults,
                          operation.name + ", killed at call " + std::to_string(at) + ": " + wrong);
    } else if (rounds > 0 && !judge.leftovers(state).empty() && (!setup.quick || at % 8 == 0)) {
      Operation again = operation;
      again.name += ", killed, next save";
      again.before = judge.needed(state);
      for (const std::string& name : judge.leftovers(state)) again.left_over[name] = state.at(name);
      again.run = operation.next;
      kill_everywhere(setup, again, "kill in the next save", tally, rounds - 1);
    }
  }
  tally.add_stranded(judge.stranded());
}

/// As another program would, which then goes away.
void open_to_write(const Operation& operation, const fs::path& folder) {
  if (operation.is_folder) {
    const ckpt::AtomicFolder other(folder / operation.head, {.overwrite = true});
  } else {
    const ckpt::AtomicFile other(folder / operation.head);
  }
}

}  // namespace

void try_errors(const Setup& setup, const Operation& operation, Tally& tally) {
  ErrorTrial trial{setup, operation, tally};
  std::vector<Call> calls = calls_of(operation, trial.folder);
  for (std::size_t at = 0; at < calls.size(); ++at) {
    for (const NamedError& error : errors_of(calls[at].kind)) {
      if (setup.stop_at_violation && tally.violations() > 0) return;
      trial.run(calls[at], {.at = at, .error = error.error}, std::string("error ") + error.name, error.name);
      if (error.error == EINTR || error.error == EOPNOTSUPP || error.error == EXDEV || error.error == ENOLCK) continue;
      trial.run(calls[at], {.at = at, .error = error.error, .from_then_on = true}, std::string("error ") + error.name,
                error.name);
    }
    bool writes = calls[at].kind == Kind::write || calls[at].kind == Kind::copy;
    for (std::size_t length : {1, 511, 4095}) {
      // One byte a call takes long; from the first call on is enough.
      if (writes && (length > 1 || at < 8)) {
        trial.run(calls[at], {.at = at, .length = length}, "short writes",
                  "at most " + std::to_string(length) + " bytes");
      }
    }
  }
}

void try_kills(const Setup& setup, const Operation& operation, Tally& tally) {
  kill_everywhere(setup, operation, "SIGKILL", tally, 1);
}

void try_second_writer(const Setup& setup, const Operation& operation, Tally& tally) {
  fs::path folder = setup.scratch / "shared";
  write_folder(folder, start_of(operation));
  std::string lock_file = "." + operation.head + ".ckpt-lock";
  bool opened = false;
  bool locked = false;
  auto before = [&](const Call& call) {
    bool is_lock = call.file == lock_file;
    opened |= call.kind == Kind::open && (is_lock || call.file == operation.head);
    if (call.kind == Kind::unlink && is_lock) locked = opened = false;  // other locks may follow
    if (locked) {
      tally.add_point(operation.group, "second writer");
      try {
        open_to_write(operation, folder);
        tally.add_violation(operation.group, "second writer",
                            operation.name + ": is let in before " + std::string(name(call.kind)));
      } catch (const core::Error& error) {
        if (std::string(error.what()).find("is writing this file") == std::string::npos) throw;
      }
    }
    if (call.kind == Kind::lock && opened) locked = true;
  };
  FailingCalls calls({.before_each = before});
  operation.run(folder);
}

}  // namespace test::faults
