#pragma once
// ProcessGroup: some of the processes of a training, numbered from 0, and the engine between them. Collectives of a
// group begin in the order in which a rank calls them, which must be the same on all its ranks. What happens when that
// goes wrong: a rank that is gone, that left, that failed or that calls something else is named in the error of the
// others' collectives, within seconds. After an error the group works no more. Thread safety: all calls. Use:
// core::distributed::default_group()->size();

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libcore/dist/engine.h"
#include "libcore/dist/fingerprint.h"
#include "libcore/dist/watch.h"
#include "libcore/dist/work.h"
#include "libcore/tensor/tensor.h"

namespace core::distributed {

/// What is to be done in the group's threads.
struct Request {
  Fingerprint fingerprint = {};
  std::string what = {};   ///< "all_reduce", in errors
  std::string label = {};  ///< "bucket 2 of 4", in errors
  std::function<void(Engine& engine, const Call& call)> run = {};
  std::function<void()> finish = {};         ///< by who waits, afterwards
  std::optional<Milliseconds> timeout = {};  ///< the group's
  bool is_message = false;                   ///< between two ranks alone: has no number among the group's collectives
  std::uint32_t message_tag = 0;
  // For the engine of GPUs.
  std::optional<Device> device = {};  ///< whose memory is exchanged
  int peer = 0;                       ///< of a message
  bool is_send = false;
  double factor = 1;  ///< of ReduceOp::premul_sum
};

class ProcessGroup {
 public:
  struct Parts {
    std::string name;
    std::vector<int> ranks;  ///< of the default group; this process is ranks[rank]
    int rank = 0;
    std::unique_ptr<Engine> engine;  ///< for the memory of the host; null: it takes no part, or only GPUs do
    /// That for GPUs, asked for once, when their memory is first to be exchanged; may give null: through the host.
    std::function<std::unique_ptr<Engine>()> make_device_engine = {};
    bool through_host = true;     ///< where there is no engine for GPUs, their memory goes by that of the host
    std::string backend = {};     ///< its name; the engine's
    std::int64_t local_rank = 0;  ///< among the processes of this machine
    std::shared_ptr<Store> store;
    std::shared_ptr<Watch> watch;  ///< null for a process alone
    Milliseconds timeout{};
  };
  explicit ProcessGroup(Parts parts);
  /// Waits for what is under way, unless an error ended the group.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return parts_.rank; }
  int size() const { return static_cast<int>(parts_.ranks.size()); }
  /// Ranks of the default group, in this group's order.
  const std::vector<int>& ranks() const { return parts_.ranks; }
  const std::string& name() const { return parts_.name; }
  std::string backend() const { return backend_; }
  /// Of the engine for host memory: "gloo", "mpi"; empty: there is none.
  const std::string& host_engine() const { return host_engine_; }
  /// Whether tensors on the CPU can be exchanged.
  bool takes_host_memory() const { return !host_engine_.empty(); }
  /// Whether those of this device are, without the host. Error(runtime) "No backend type associated with device type
  /// cuda" where they cannot be at all.
  bool exchanges_on(Device device) const;
  /// Where what the group says for itself lies: on the CPU, else on the GPU that was used last, else on the current one
  /// or, when nobody chose one, cuda:LOCAL_RANK.
  Device own_device() const;
  Milliseconds timeout() const { return parts_.timeout; }
  Store& store() const { return *parts_.store; }
  /// This group's rank of a rank of the default group; -1 for one that has no part.
  int rank_of(int global_rank) const;
  /// Begins it, in a thread of the group.
  Work start(Request request);
  /// For the watch: each call looks whether something under way can be answered by now. False when the group has ended.
  std::function<bool()> caretaker() const;

 private:
  struct Job;
  struct Shared;
  static Parts parts_of(const Parts& all);

  Parts parts_;
  std::string backend_;
  std::string host_engine_;
  std::uint64_t sequence_ = 0;  // of the next collective
  std::shared_ptr<Shared> shared_;
};

using Group = std::shared_ptr<ProcessGroup>;

}  // namespace core::distributed
