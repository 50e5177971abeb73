#pragma once
// Engine: what moves bytes between the processes of one group: Gloo, MPI, or between GPUs NCCL. The interface behind
// ProcessGroup, which does everything else (order, threads, checks, errors). Internal to dist. Thread safety: several
// collectives with different tags may run at once, each in a thread of its own. Errors: any std::exception;
// ProcessGroup says whose fault it was. Use: std::string said_by = engine.name();

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libcore/backend/streams.h"
#include "libcore/base/device.h"
#include "libcore/base/dtype.h"
#include "libcore/dist/reduce_op.h"
#include "libcore/dist/store.h"

namespace core::distributed {

/// One collective: calls with other tags never meet, so that ranks which call different things do not mix up bytes.
struct Call {
  std::uint32_t tag = 0;
  Milliseconds timeout = kStoreTimeout;
  std::function<bool()> has_ended = {};  ///< whether somebody else ended the call; then the engine may end it too
  // Of an engine for GPUs, whose calls get memory of `device`.
  Device device = {};
  std::optional<cuda::Event> after = {};  ///< the place in the caller's stream from which on the memory may be used
  double factor = 1;                      ///< of ReduceOp::premul_sum
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string name() const = 0;
  /// Whether a call that failed may go on using its memory, and a call that has_ended() returns soon.
  virtual bool may_keep_memory() const { return false; }
  /// A call has failed: other ranks may be gone.
  virtual void note_failure() {}

  // `data` holds `count` elements; sums are taken in the engine's order.
  virtual void all_reduce(void* data, std::int64_t count, DType dtype, ReduceOp op, const Call& call) = 0;
  /// The result is the root's; elsewhere `data` is left in some state.
  virtual void reduce(void* data, std::int64_t count, DType dtype, ReduceOp op, int root, const Call& call) = 0;
  virtual void broadcast(void* data, std::int64_t bytes, int root, const Call& call) = 0;
  /// `out` has room for `bytes` of every rank.
  virtual void all_gather(const void* in, void* out, std::int64_t bytes, const Call& call) = 0;
  virtual void gather(const void* in, void* out, std::int64_t bytes, int root, const Call& call) = 0;
  virtual void scatter(const void* in, void* out, std::int64_t bytes, int root, const Call& call) = 0;
  /// Rank q gets in_bytes[q] of `in`, in order; out_bytes[q] come from it.
  virtual void all_to_all(const void* in, std::span<const std::int64_t> in_bytes, void* out,
                          std::span<const std::int64_t> out_bytes, const Call& call) = 0;
  virtual void barrier(const Call& call) = 0;
  /// One message; both sides give the same tag and the same number of bytes.
  virtual void send(const void* data, std::int64_t bytes, int to, const Call& call) = 0;
  virtual void receive(void* data, std::int64_t bytes, int from, const Call& call) = 0;
  /// `out` gets the sums of this rank's part of `in`, `count` elements a rank. False: it is made of reductions.
  virtual bool reduce_scatter(const void* /*in*/, void* /*out*/, std::int64_t /*count*/, DType /*dtype*/,
                              ReduceOp /*op*/, const Call& /*call*/) {
    return false;
  }
};

struct EngineOptions {
  int rank = 0;
  int size = 1;
  std::shared_ptr<Store> store = {};  ///< through which the ranks find each other
  std::string address;                ///< of this machine, as numbers; connections come in there
  std::string interface;              ///< in its place, the name of a network card
  Milliseconds timeout = kStoreTimeout;
  std::vector<int> ranks = {};  ///< of the default group
  /// Whether one of the ranks is gone, so that connecting to all is given up. From any thread.
  std::function<bool()> is_in_vain = [] { return false; };
};

/// Error(unsupported) "... install libgloo-dev ..." where libcore was built without Gloo.
std::unique_ptr<Engine> make_gloo_engine(const EngineOptions& options);
bool has_gloo();
/// Of messages of the program's own over MPI, whose tags have 31 bits.
constexpr std::uint32_t kLargestMpiTag = (1U << 30) - 1;
/// Over MPI, when start_mpi() has been called. Sums are taken in Gloo's order, so they have its bits.
std::unique_ptr<Engine> make_mpi_engine(const EngineOptions& options);
/// Between GPUs, one a rank. Communicators are made when they are first needed. REQUIRES: nccl::why_no_ranks() has
/// nothing to say.
std::unique_ptr<Engine> make_nccl_engine(const EngineOptions& options);
/// What NCCL does not take: Error(type) "Input tensor data type is not supported for NCCL process group: Short".
void check_nccl_dtype(DType dtype);
/// Error(value) "Cannot use ReduceOp.BAND with NCCL", Error(type) "Cannot use ReduceOp.AVG with Boolean inputs".
void check_nccl_reduction(DType dtype, ReduceOp op);

}  // namespace core::distributed
