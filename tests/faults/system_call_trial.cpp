// The tool itself under strace, which kills it in place of the k-th call of a kind, or lets that call fail.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <stdexcept>

#include "tests/faults/trials.h"
#include "tests/faults/verdict.h"
#include "tests/support/temp_dir.h"

namespace test::faults {
namespace {

namespace fs = std::filesystem;

struct SystemCall {
  const char* name;
  std::array<const char*, 3> errors;
};

/// Calls that change files, and what they may report. An error of a call that the tool has another way for (openat of
/// what it only reads, fcntl) says nothing about saving: those are only killed at.
constexpr SystemCall kCalls[] = {
    {"openat", {}},
    {"pwrite64", {"ENOSPC", "EDQUOT", "EIO"}},
    {"copy_file_range", {"ENOSPC", "EDQUOT", "EIO"}},
    {"fallocate", {"ENOSPC", "EDQUOT", "EIO"}},
    {"ftruncate", {"ENOSPC", "EIO", "EROFS"}},
    {"fsync", {"ENOSPC", "EDQUOT", "EIO"}},
    {"renameat2", {"ENOSPC", "EIO", "EROFS"}},
    {"linkat", {"ENOSPC", "EIO", "EROFS"}},
    {"unlinkat", {}},
    {"unlink", {}},
    {"mkdirat", {"ENOSPC", "EIO", "EROFS"}},
    {"fchmod", {}},
    {"fcntl", {}},
    {"close", {}},
};

struct Run {
  bool killed = false;
  int code = 0;
  std::string log;  ///< of strace
};

/// `strace -f` over the tool in the folder; `inject` is its option, "" for none.
Run run_tool(const Setup& setup, const Operation& operation, const fs::path& folder, const std::string& call,
             const std::string& inject) {
  fs::path log = setup.scratch / "strace.log";
  std::vector<std::string> words = {"strace", "-f", "-o", log.string(), "-e", "trace=" + call, "-e", "signal=none"};
  if (!inject.empty()) words.insert(words.end(), {"-e", "inject=" + call + ":" + inject});
  words.push_back(setup.tool.string());
  words.insert(words.end(), operation.command.begin(), operation.command.end());
  if (operation.command.front() != "undo") words.insert(words.end(), {"-j", "1"});  // which has no threads to limit
  pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int nowhere = ::open("/dev/null", O_RDWR);
    for (int fd : {0, 1, 2}) ::dup2(nowhere, fd);
    if (::chdir(folder.c_str()) == 0) ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  Run run{WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, WIFEXITED(status) ? WEXITSTATUS(status) : 128, ""};
  if (run.code == 127) throw std::runtime_error("strace does not start");
  run.log = read_file(log);
  return run;
}

/// How often the undisturbed tool makes the call. Without that number a trial would inject nothing and pass.
unsigned long count_calls(const Setup& setup, const Operation& operation, const fs::path& folder, const char* call) {
  write_folder(folder, start_of(operation));
  Run run = run_tool(setup, operation, folder, call, "");
  if (run.code != 0) throw std::runtime_error(operation.name + ": the tool ends with " + std::to_string(run.code));
  std::istringstream lines(run.log);
  unsigned long count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(std::string(call) + "(") != std::string::npos;
  return count;
}

/// What the tool makes of the folder may be named or ordered otherwise than what the library call makes.
Operation as_the_tool_does(const Setup& setup, const Operation& operation) {
  Operation other = operation;
  other.run = [setup, operation](const fs::path& folder) {
    Run run = run_tool(setup, operation, folder, "fsync", "");
    if (run.code != 0) throw std::runtime_error(operation.name + ": the tool ends with " + std::to_string(run.code));
  };
  if (operation.next_by_tool) other.next = other.run;
  return other;
}

struct SystemCallTrial {
  const Setup& setup;
  const Operation& operation;
  Tally& tally;
  Judge judge;
  fs::path folder;

  void run(const char* call, unsigned long number, const char* error) {
    write_folder(folder, start_of(operation));
    std::string fault = error == nullptr ? "signal=KILL" : "error=" + std::string(error);
    Run run = run_tool(setup, operation, folder, call, fault + ":when=" + std::to_string(number));
    const std::string faults =
        error == nullptr ? "SIGKILL of the tool" : "error " + std::string(error) + " of the tool";
    std::string place = operation.name + ", " + call + " " + std::to_string(number) + ", " + faults;
    bool injected = error == nullptr ? run.killed : run.log.find("(INJECTED)") != std::string::npos;
    if (!injected) throw std::runtime_error(place + ": nothing was injected");
    tally.add_point(operation.group, faults);
    Folder state = read_folder(folder);
    bool unknown = error != nullptr && run.code == 4 && std::string(call) == "fsync";  // in place, durability unknown
    Claim claim = run.killed || unknown ? Claim::none : run.code == 0 ? Claim::success : Claim::failure;
    std::string wrong = judge.verdict(state, claim);
    if (error != nullptr && run.code != 0 && run.code != 4) wrong = "exit code " + std::to_string(run.code);
    if (error != nullptr && run.code == 0 && std::string(call) == "fsync") wrong = "success was reported";
    if (!wrong.empty()) tally.add_violation(operation.group, faults, place + ": " + wrong);
  }
};

}  // namespace

void try_system_calls(const Setup& setup, const Operation& operation, Tally& tally) {
  if (operation.command.empty()) return;
  if (setup.tool.empty()) throw std::runtime_error("system-calls needs --tool");
  Operation tool = as_the_tool_does(setup, operation);
  SystemCallTrial trial{setup, tool, tally, Judge(tool, setup.scratch / "judged"), setup.scratch / "traced"};
  for (const SystemCall& call : kCalls) {
    unsigned long count = count_calls(setup, tool, trial.folder, call.name);
    bool many = setup.quick && (std::string(call.name) == "openat" || std::string(call.name) == "close");
    for (unsigned long number = 1; number <= count; number += many ? 10 : 1) {
      if (!setup.quick || number <= 4) trial.run(call.name, number, nullptr);
      for (const char* error : call.errors) {
        if (error != nullptr && (!setup.quick || number <= 2)) trial.run(call.name, number, error);
      }
    }
  }
}

}  // namespace test::faults
