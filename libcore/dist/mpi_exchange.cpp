#include "libcore/dist/mpi_exchange.h"

#include <algorithm>
#include <string>
#include <thread>

#include "libcore/base/error.h"
#include "libcore/dist/mpi_library.h"
#include "libcore/dist/socket.h"

namespace core::distributed {
namespace {

using Clock = std::chrono::steady_clock;
/// MPI moves bytes only while it is asked: at first without a pause, then seldom, so that a long wait costs little.
constexpr std::chrono::microseconds kBusy(500);
constexpr std::chrono::milliseconds kSoon(50);

void pause_after(Clock::duration waited) {
  if (waited < kBusy) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(waited < kSoon ? 20 : 500));
  }
}

[[noreturn]] void fail_io(const std::string& text) {
  throw Error(ErrorCode::io, text);
}

}  // namespace

MpiExchange::MpiExchange(const MpiPlugin& mpi, void* group, int tag, const Call& call)
    : mpi_(mpi), group_(group), tag_(tag), call_(call), deadline_(deadline_after(call.timeout)) {}

MpiExchange::~MpiExchange() {
  for (const Pending& pending : requests_) {
    if (pending.request == nullptr) continue;
    give_up_mpi();
    mpi_.cancel(pending.request);
  }
}

void MpiExchange::add(void* request, std::int64_t expected, int other) {
  if (request == nullptr) fail_io(error_);
  requests_.push_back({request, expected, other});
}

void MpiExchange::send(const void* data, std::int64_t bytes, int to) {
  for (std::int64_t at = 0; at < bytes; at += kMpiLongestMessage) {
    const std::int64_t part = std::min(bytes - at, kMpiLongestMessage);
    add(mpi_.send(group_, static_cast<const char*>(data) + at, part, to, tag_, error_), -1, to);
  }
}

void MpiExchange::receive(void* data, std::int64_t bytes, int from) {
  for (std::int64_t at = 0; at < bytes; at += kMpiLongestMessage) {
    const std::int64_t part = std::min(bytes - at, kMpiLongestMessage);
    add(mpi_.receive(group_, static_cast<char*>(data) + at, part, from, tag_, error_), part, from);
  }
}

bool MpiExchange::ends(Pending& pending) {
  bool ended = false;
  std::int64_t bytes = 0;
  const bool is_good = mpi_.test(pending.request, &ended, &bytes, error_);
  if (!ended) return false;
  pending.request = nullptr;
  if (!is_good) fail_io("a message from or to rank " + std::to_string(pending.other) + " failed: " + error_);
  if (pending.expected >= 0 && bytes != pending.expected) {
    fail_io("rank " + std::to_string(pending.other) + " sent " + std::to_string(bytes) + " bytes where " +
            std::to_string(pending.expected) + " were expected");
  }
  return true;
}

void MpiExchange::wait_for(std::size_t count) {
  for (Clock::time_point idle_since = Clock::now(); waited_for_ < count;) {
    if (ends(requests_[waited_for_])) {
      ++waited_for_;
      idle_since = Clock::now();
      continue;
    }
    const Clock::time_point now = Clock::now();
    if (now > deadline_) {
      fail_io("Timed out waiting " + std::to_string(call_.timeout.count()) + "ms for a message from or to rank " +
              std::to_string(requests_[waited_for_].other));
    }
    if (call_.has_ended && call_.has_ended()) fail_io("the call was ended");
    pause_after(now - idle_since);
  }
}

}  // namespace core::distributed
