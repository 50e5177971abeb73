#pragma once
// NearRanks: the ranks of a group when all are processes of one machine that may read each other's memory
// (process_vm_readv): they do, and leave each other notes in memory that they share, so that long sums pass through no
// socket and no other thread. The system may forbid it (other users, other containers, Yama) or not know it; then, and
// for ranks of other machines, meet() says so. Internal to dist. Thread safety: all calls, when meet has returned.
// Errors: Error(io) "Timed out ...", of a process that is gone, of a call that somebody else ended.
// Use: near.say(peer, slot, value, call); near.read(peer, its_address, to, bytes);

#include <cstdint>
#include <mutex>
#include <vector>

#include "libcore/dist/engine.h"

namespace core::distributed {

class NearRanks {
 public:
  /// By what another process finds this one's memory, and knows that it is the right one.
  struct Card {
    std::int64_t process = 0;  ///< 0: wants nobody to read there
    std::uint64_t board = 0;   ///< its address
    std::uint64_t mark = 0;    ///< what is at that address
    std::int64_t file = -1;    ///< the board's descriptor
  };
  struct Note {
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
  Card card() const { return card_; }
  /// Whether this process can read the memory of all ranks.
  bool meet(const std::vector<Card>& cards);
  /// When all ranks have met, or some could not.
  void end_meeting();

  void read(int peer, std::uint64_t from, void* to, std::int64_t bytes) const;
  /// REQUIRES: slot != 0
  void say(int peer, std::uint64_t slot, std::uint64_t value, const Call& call);
  /// Waits for a note in this slot and takes it.
  Note hear(std::uint64_t slot, const Call& call);
  /// Error(io) where the peer has given up by now: what was read there may have been anything.
  void check(int peer) const;
  /// This process is about to let go of memory that others may be reading.
  void give_up();

 private:
  struct Board;
  struct Slip;
  std::size_t board_bytes() const;
  Slip* lane(Board* board, int from) const;
  bool open(int peer, const Card& card);

  int rank_;
  int size_;
  Card card_;
  std::vector<Card> cards_;
  std::vector<Board*> boards_;  // of all ranks, in memory that their processes share; null: not met
  std::mutex saying_;
};

}  // namespace core::distributed
