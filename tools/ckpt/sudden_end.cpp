#include "tools/ckpt/sudden_end.h"

#include <cxxabi.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <exception>
#include <new>
#include <typeinfo>

#include "libckpt/io/pending_files.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/output/progress.h"

namespace cli {
namespace {

LastWords last_words;
std::atomic<void (*)()> restore_terminal = nullptr;

void restore() {
  if (void (*back)() = restore_terminal.exchange(nullptr)) back();
}

/// The first thread to come ends the program; others wait for that.
void be_the_one_that_ends() {
  static std::atomic_flag taken = ATOMIC_FLAG_INIT;
  while (taken.test_and_set()) ::pause();
}

template <std::size_t kCount>
void write_pieces(const std::array<const char*, kCount>& pieces) {
  std::array<iovec, kCount> parts{};
  for (std::size_t i = 0; i < kCount; ++i) parts[i] = {const_cast<char*>(pieces[i]), std::strlen(pieces[i])};
  [[maybe_unused]] ssize_t ignored = ::writev(STDERR_FILENO, parts.data(), parts.size());
}

[[noreturn]] void end_with(const char* code, const char* exit, const char* before, const char* message, int status) {
  be_the_one_that_ends();
  ckpt::remove_pending();
  restore();
  wipe_progress_bar();
  if (last_words.json) {
    write_pieces<10>({R"({"schema":2,"version":")", CKPT_VERSION, R"(","error":{"code":")", code, R"(","exit":)", exit,
                      R"(,"message":")", before, message, "\",\"subject\":[]}}\n"});
  } else {
    write_pieces<4>({"ckpt: ", before, message, "\n"});
  }
  ::_exit(status);
}

/// Without an exception in flight it may be that there was no memory for one.
[[noreturn]] void end_uncaught() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) {
    void* volatile probe = ::operator new(64);  // ends the program when it cannot be had
    ::operator delete(probe);
  }
  if (type != nullptr && *type == typeid(std::bad_alloc)) end_out_of_memory();
  end_with("internal", "70", "this is a bug of ckpt, please report it: it was ended by ",
           type == nullptr ? "std::terminate" : type->name(), kBug);
}

[[noreturn]] void end_by_signal(int signal) {
  be_the_one_that_ends();
  ckpt::remove_pending();
  restore();
  wipe_progress_bar();
  if (signal == SIGINT && ::isatty(STDERR_FILENO) == 1) {
    write_pieces<1>({"\rckpt: interrupted; no unfinished file is left\n"});  // over the terminal's ^C
  }
  std::signal(signal, SIG_DFL);
  sigset_t one;
  ::sigemptyset(&one);
  ::sigaddset(&one, signal);
  ::kill(::getpid(), signal);
  ::pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  ::_exit(128 + signal);  // the first process of a container is not ended by a signal
}

}  // namespace

void on_sudden_end(void (*back)()) {
  restore_terminal = back;
}

void end_out_of_memory() {
  end_with("io", "4", "", last_words.out_of_memory, kIo);
}

void end_by_line_when_out_of_memory(const LastWords& words) {
  last_words = words;
  std::set_new_handler(end_out_of_memory);
  std::set_terminate(end_uncaught);
}

void end_cleanly_on_signals() {
  struct sigaction action = {};
  action.sa_handler = end_by_signal;
  ::sigfillset(&action.sa_mask);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGPIPE}) {
    struct sigaction old = {};
    ::sigaction(signal, nullptr, &old);
    // `ckpt ls | head` ends quietly, also under a parent that ignores it.
    if (old.sa_handler != SIG_IGN || signal == SIGPIPE) ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace cli
