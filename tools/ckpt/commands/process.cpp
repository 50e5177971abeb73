#include "tools/ckpt/commands/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

#include "libckpt/io/pending_files.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

extern char** environ;

namespace cli {
namespace {

struct Pipe {
  int read = -1;
  int write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw core::Error(core::ErrorCode::io, std::string("cannot create a pipe: ") + std::strerror(errno));
    }
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    ::close(read);
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_write() {
    if (write >= 0) ::close(write);
    write = -1;
  }
};

/// Reads both pipes until both are closed at the other end.
void drain(const Pipe& out, const Pipe& err, ProcessResult& result) {
  std::array<pollfd, 2> ends = {{{out.read, POLLIN, 0}, {err.read, POLLIN, 0}}};
  std::array<std::string*, 2> texts = {&result.out, &result.err};
  int open = 2;
  while (open > 0) {
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      char buffer[4096];
      ssize_t n = ::read(ends[i].fd, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n > 0) {
        texts[i]->append(buffer, static_cast<std::size_t>(n));
        continue;
      }
      ends[i].fd = -1;
      --open;
    }
  }
}

struct Child {
  pid_t pid = 0;
  ckpt::detail::PendingProcess pending;
};

/// 0 or the errno. Signals wait in this thread, not in the child.
int start(const std::vector<std::string>& words, const Pipe& out, const Pipe& err, Child& child) {
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // What is not noted for want of memory would leave the child with other streams.
  int unnoted = ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (unnoted == 0) unnoted = ::posix_spawn_file_actions_adddup2(&actions, out.write, STDOUT_FILENO);
  if (unnoted == 0) unnoted = ::posix_spawn_file_actions_adddup2(&actions, err.write, STDERR_FILENO);
  posix_spawnattr_t attributes;
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  ckpt::detail::Step step;
  int error = unnoted != 0 ? unnoted : ::posix_spawnp(&child.pid, argv[0], &actions, &attributes, argv.data(), environ);
  if (error == 0) child.pending = ckpt::detail::PendingProcess(child.pid);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return error;
}

int wait_for(Child& child) {
  siginfo_t ended;
  while (::waitid(P_PID, static_cast<id_t>(child.pid), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  ckpt::detail::Step step;  // the number of a process that was waited for may be another's
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  child.pending.let_go();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& words) {
  Pipe out;
  Pipe err;
  Child child;
  int error = start(words, out, err, child);
  ProcessResult result;
  if (error == ENOENT || error == EACCES) {
    result.code = 127;
    return result;
  }
  if (error == ENOMEM) throw std::bad_alloc();
  if (error != 0) {
    throw core::Error(core::ErrorCode::io, "cannot start " + core::quote(words.front()) + ": " + std::strerror(error));
  }
  out.close_write();
  err.close_write();
  drain(out, err, result);
  result.code = wait_for(child);
  return result;
}

}  // namespace cli
