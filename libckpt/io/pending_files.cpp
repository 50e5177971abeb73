#include "libckpt/io/pending_files.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>

namespace ckpt {
namespace {

constexpr int kFree = 0;
constexpr int kFilling = 1;
constexpr int kPlaces = 2048;
constexpr int kPatience = 200;  // milliseconds

struct Place {
  std::atomic<int> kind = kFree;
  int number = 0;  ///< the folder's descriptor, or the process
  std::array<char, 1024> name = {};
};

// All zero from the start: pages that are not used cost nothing. Without constinit a constructor of each place runs and
// touches two megabytes before main(), more than half of what a command on a small file takes from the system.
constinit std::array<Place, kPlaces> table;
std::atomic<int> places_used;  ///< none behind it was ever taken
std::atomic<int> steps;        ///< of all threads
std::atomic<bool> is_ending;
thread_local int own_steps;

void wait_a_moment() {
  timespec moment{0, 1'000'000};
  ::nanosleep(&moment, nullptr);
}

/// True when no other thread is in a step, after some patience.
bool wait_for_steps() {
  for (int i = 0; i < kPatience && steps.load() > own_steps; ++i) wait_a_moment();
  return steps.load() <= own_steps;
}

}  // namespace

detail::Step::Step() {
  sigset_t all;
  ::sigfillset(&all);
  // A fault of this thread cannot wait.
  for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) ::sigdelset(&all, fault);
  ::pthread_sigmask(SIG_BLOCK, &all, &old_signals_);
  steps.fetch_add(1);
  if (is_ending.load() && own_steps == 0) {
    steps.fetch_sub(1);
    while (true) ::pause();  // another thread ends the program
  }
  ++own_steps;
}

detail::Step::~Step() {
  --own_steps;
  steps.fetch_sub(1);
  int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &old_signals_, nullptr);
  errno = error;
}

detail::Pending::Pending(Kind kind, int number, std::string_view name) {
  if (name.size() >= Place().name.size()) return;
  for (int i = 0; i < kPlaces; ++i) {
    Place& place = table[static_cast<std::size_t>(i)];
    int free = kFree;
    if (!place.kind.compare_exchange_strong(free, kFilling)) continue;
    place.number = number;
    *std::copy(name.begin(), name.end(), place.name.begin()) = '\0';
    for (int used = places_used; used <= i && !places_used.compare_exchange_weak(used, i + 1);) {
    }
    place.kind.store(kind);
    place_ = i;
    return;
  }
}

void detail::Pending::let_go() {
  if (place_ >= 0) table[static_cast<std::size_t>(place_)].kind.store(kFree);
  place_ = -1;
}

void remove_pending() {
  struct Kinds : detail::Pending {
    static void remove(const Place& place, bool between_steps) {
      int kind = place.kind.load();
      if (kind == kProcess) ::kill(place.number, SIGKILL);
      if (kind == kFile || (kind == kPart && between_steps)) ::unlinkat(place.number, place.name.data(), 0);
      if (kind == kFolder) ::unlinkat(place.number, place.name.data(), AT_REMOVEDIR);
    }
  };
  int error = errno;
  is_ending = true;
  bool between_steps = wait_for_steps() && own_steps == 0;
  // What was begun last goes first: a lock behind what it guards, a note behind the files it names.
  for (int i = places_used; i-- > 0;) Kinds::remove(table[static_cast<std::size_t>(i)], between_steps);
  errno = error;
}

}  // namespace ckpt
