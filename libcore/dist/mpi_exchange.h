#pragma once
// MpiExchange: messages that are under way together. Waits give the processor away, end at the call's timeout and when
// somebody else ended the call; then what is still under way is given up. MPI may go on using its memory, which
// therefore stays for the rest of the process (Engine::may_keep_memory). Internal to dist. Thread safety: one thread.
// Use: MpiExchange exchange(mpi, group, tag, call); exchange.receive(to, n, q); exchange.send(from, n, q);
// exchange.wait();

#include <cstdint>
#include <vector>

#include "libcore/dist/engine.h"
#include "libcore/dist/mpi_plugin.h"

namespace core::distributed {

class MpiExchange {
 public:
  MpiExchange(const MpiPlugin& mpi, void* group, int tag, const Call& call);
  /// Gives up what is still under way.
  ~MpiExchange();
  MpiExchange(const MpiExchange&) = delete;
  MpiExchange& operator=(const MpiExchange&) = delete;

  /// Messages between the same two ranks arrive in the order in which they were sent. Longer ones go in parts.
  void send(const void* data, std::int64_t bytes, int to);
  void receive(void* data, std::int64_t bytes, int from);
  /// For everything so far. Error(io) "Timed out ..."; a message of another length than expected.
  void wait() { wait_for(requests_.size()); }
  /// For the first so many messages, in the order of their calls.
  void wait_for(std::size_t count);
  std::size_t count() const { return requests_.size(); }

 private:
  struct Pending {
    void* request = nullptr;  ///< null: it has ended
    std::int64_t expected = -1;
    int other = 0;
  };
  void add(void* request, std::int64_t expected, int other);
  bool ends(Pending& pending);

  const MpiPlugin& mpi_;
  void* group_;
  int tag_;
  const Call& call_;
  std::chrono::steady_clock::time_point deadline_;
  std::vector<Pending> requests_;
  std::size_t waited_for_ = 0;
  char error_[kMpiErrorRoom] = "";
};

}  // namespace core::distributed
