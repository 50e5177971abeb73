#pragma once
// NearRanks: the ranks of a group when all are processes of one machine that may read each other's memory
// (process_vm_readv): they do, and leave each other messages in memory that they share, so that long sums pass through
// no socket and no other thread. The system may forbid it (other users, other containers, Yama) or not know it; then,
// and for ranks of other machines, meet() says so. Internal to dist. Thread safety: all calls, when meet has returned.
// Errors: Error(io) "Timed out ...", of a process that is gone, of a call that somebody else ended.
// Use: near.send(peer, tag, value, call); near.read(peer, its_address, to, bytes);

#include <cstdint>
#include <mutex>
#include <vector>

#include "libcore/dist/engine.h"

namespace core::distributed {

class NearRanks {
 public:
  /// By what another process finds this one's memory, and knows that it is the right one.
  struct Handle {
    std::int64_t process = 0;   ///< 0: wants nobody to read there
    std::uint64_t mailbox = 0;  ///< its address
    std::uint64_t mark = 0;     ///< what is at that address
    std::int64_t file = -1;     ///< the descriptor of the mailbox
  };
  struct Message {
    int rank = 0;  ///< of who wrote it
    std::uint64_t value = 0;
  };

  /// CORE_DIST_NEAR=0 in the environment: this process takes no part in it.
  NearRanks(int rank, int size);
  ~NearRanks();
  NearRanks(const NearRanks&) = delete;
  NearRanks& operator=(const NearRanks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  Handle handle() const { return handle_; }
  /// Whether this process can read the memory of all ranks.
  bool meet(const std::vector<Handle>& handles);
  /// When all ranks have met, or some could not.
  void end_meeting();

  void read(int peer, std::uint64_t from, void* to, std::int64_t bytes) const;
  /// REQUIRES: tag != 0
  void send(int peer, std::uint64_t tag, std::uint64_t value, const Call& call);
  /// Waits for a message with this tag and takes it.
  Message receive(std::uint64_t tag, const Call& call);
  /// Error(io) where the peer has given up by now: what was read there may have been anything.
  void check(int peer) const;
  /// This process is about to let go of memory that others may be reading.
  void give_up();

 private:
  struct Mailbox;
  struct Slot;
  std::size_t mailbox_bytes() const;
  Slot* lane(Mailbox* mailbox, int from) const;
  bool open(int peer, const Handle& handle);

  int rank_;
  int size_;
  Handle handle_;
  std::vector<Handle> handles_;
  std::vector<Mailbox*> mailboxes_;  // of all ranks, in memory that their processes share; null: not met
  std::mutex sending_;
};

}  // namespace core::distributed
