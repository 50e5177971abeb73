#pragma once
// Watch: how the processes of a training learn of each other's end. Each has one connection to rank 0; who ends without
// a goodbye is noticed there at once and named to all others. The same way go the error of a process that failed first,
// and what each process waits in when that takes long, so that calls which differ can be explained.
// Through it they also meet: rank 0 welcomes all others once each of them is connected, and then takes no more. Until
// then none of them has a part in anything, so one that met a rank 0 of an earlier group, which is about to end, looks
// for the new one. What a store keeps from earlier groups is not read: keys begin with a token of this meeting.
// Internal to dist. Thread safety: all calls. Use: Watch watch({.rank = r, .size = n, .store = store});

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "libcore/dist/socket.h"
#include "libcore/dist/store.h"

namespace core::distributed {

class Watch {
 public:
  struct Options {
    int rank = 0;
    int size = 1;
    std::shared_ptr<Store> store = {};
    std::string address = {};                    ///< at which rank 0 listens
    std::string said = {};                       ///< what this rank has to say to the others
    std::function<void()> all_are_here = [] {};  ///< called on rank 0 before the others are told
    Milliseconds timeout = kStoreTimeout;
  };
  /// What ended the part of one rank.
  struct Event {
    enum class Kind { gone, left, failed };
    Kind kind = Kind::gone;
    int rank = 0;
    std::string text = {};  ///< of `failed`; of `gone`: empty unless the program ended in order
    std::chrono::steady_clock::time_point when = {};
  };
  /// What a rank says it waits in.
  struct Position {
    int rank = 0;
    std::string group;
    std::uint64_t sequence = 0;
    std::string fingerprint;
  };

  /// Returns when all are there. LostStore where the store ends before that; Error(value) "rank 1 is given to two
  /// processes: (gpu03, process 4711) and (gpu04, process 815). ...".
  explicit Watch(const Options& options);
  /// Of a rank 0 that could not serve the store since another process does: where that is a rank 0 which waits for the
  /// others, the same Error(value) on both; else Error(io) after some seconds.
  [[noreturn]] static void meet_other_hub(const std::shared_ptr<Store>& store);
  /// Says goodbye.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// The program ends in order, though not by a goodbye: the others take it for gone, but not for lost.
  void vanish();
  /// Tells all others why this process ends. Only the first call counts.
  void say_failed(const std::string& text);
  void say_position(const std::string& group, std::uint64_t sequence, const std::string& fingerprint);
  /// Of the keys of this meeting.
  const std::shared_ptr<Store>& store() const { return store_; }
  /// What rank `rank` had to say.
  const std::string& said(int rank) const { return said_[static_cast<std::size_t>(rank)]; }
  /// How long what is on its way may still arrive after its sender has ended.
  static constexpr Milliseconds kGrace{400};
  /// The first event of one of these ranks; of `failed` before the others.
  std::optional<Event> event_of(std::span<const int> ranks) const;
  /// Whether any rank failed, or ended neither with a goodbye nor in order.
  bool has_lost_any() const;
  /// What others have said of their place in the same step of the same group.
  std::vector<Position> positions(const std::string& group, std::uint64_t sequence) const;
  /// "rank 1 (gpu03, process 4711)".
  std::string describe(int rank) const;
  /// `tick` is called ten times a second, and after each event, in a thread of its own. After the call no other one
  /// runs.
  void set_tick(std::function<void()> tick);
  /// "rank 1 (gpu03, process 4711) is gone", "rank 1 failed first: ...".
  std::string sentence(const Event& event) const;

 private:
  struct Message;
  struct Peer {
    Socket socket;
    std::string input;
    int rank = -1;      // not known yet
    std::string facts;  // "host, process 4711"
  };

  void start_hub();
  void join_hub();
  std::unique_ptr<Peer> try_to_join(const std::string& hub, Deadline deadline, std::string& why);
  bool wait_for_welcome(Peer& hub, const std::string& said, Deadline deadline);
  bool is_still_hub(Peer& hub, const std::string& said);
  void welcome_all();
  void say_facts();
  void read_facts();
  void stop_thread();
  bool take_hello(Peer& peer, const Message& message);
  void refuse_second(const Peer& second, const Peer& first, const std::string& facts);
  void check_alone();
  void end_meeting(const std::string& sentence);
  void tell_twice(const std::string& sentence, const Peer* also);
  void run();
  void close_when_complete();
  void accept_peer();
  bool read_peer(Peer& peer);
  bool take_message(Peer& peer);
  void obey(const Message& message);
  void lose(Peer& peer);
  void add_event(Event event);
  void send(const Message& message);
  void relay(const Message& message, int from);

  Options options_;
  std::string token_;
  std::shared_ptr<Store> store_;
  std::vector<std::string> facts_;  // of each rank: "host, process 4711"
  std::vector<std::string> said_;
  Socket listener_;
  Socket end_here_;
  Socket end_there_;
  std::vector<std::unique_ptr<Peer>> peers_;  // on rank 0 of all others, elsewhere rank 0; the thread's alone to change

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
  std::vector<Position> positions_;
  int joined_ = 1;
  bool is_complete_ = false;  // all have joined
  std::string given_twice_;   // of a rank that two processes have: what all are told
  bool said_failed_ = false;
  std::mutex sending_;
  std::mutex ticking_;
  std::function<void()> tick_;
  std::thread thread_;
};

}  // namespace core::distributed
