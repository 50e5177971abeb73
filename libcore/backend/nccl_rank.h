#pragma once
// NcclRank: this process's part in a communicator of NCCL between several processes, each with a GPU of its own. It has
// a stream of its own; what it starts comes after an event of the caller's stream, and the caller asks when it is done.
// NCCL is loaded when it is first asked for (cuda/nccl.h). No call waits for another process: what is not ready, or not
// done, is asked for again, so that the caller can give up and abort(). Thread safety: one thread at a time.
// Use: detail::NcclRank rank(device, 0, 2, id); while (!rank.is_settled()) pause(); rank.start(&after, [&] { ... });

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "libcore/backend/streams.h"
#include "libcore/base/device.h"
#include "libcore/base/dtype.h"

namespace core {

namespace nccl {

/// Why processes cannot exchange data by NCCL here, with PyTorch's texts and the package that is missing; empty: they
/// can. Looks for the GPUs.
std::string why_no_ranks();
/// What NCCL sums: -1 where it has no such type (int16, bool). ncclDataType_t; also of 8-bit floats, from NCCL 2.24 on.
int reduction_type(DType dtype);

}  // namespace nccl

namespace detail {

class NcclRank {
 public:
  /// ncclRedOp_t.
  enum class Op { sum = 0, product = 1, max = 2, min = 3, average = 4, scaled_sum = -1 };
  struct Reduction {
    std::size_t count;
    DType dtype;
    Op op;
    double factor = 1;  ///< of scaled_sum: what every rank's values are multiplied by
  };

  /// By which the ranks of one communicator find each other: 128 bytes, made by one of them.
  static std::string make_id();
  /// Begins to meet the others; is_settled() says when all are there. `device` is a GPU.
  NcclRank(Device device, int rank, int size, const std::string& id);
  /// Leaves, in order where all is done; what was aborted stays in memory, which the GPU may still use.
  ~NcclRank();
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  /// Whether NCCL is done with what it was last told, as far as the host has to do with it. Error(runtime) "NCCL Error
  /// 6: remote process exited ..." for what went wrong since.
  bool is_settled();
  /// Runs `calls`, which start what is below, as one group. Afterwards is_settled() has to be waited for.
  void start(const cuda::Event* after, const std::function<void()>& calls);
  /// The place behind all that was started, for is_done().
  void mark();
  /// Whether the GPU has come to it. Errors: as is_settled(), and those of the device.
  bool is_done();
  /// Ends what is under way, here and, sooner or later, at the other ranks. Nothing else may be called afterwards.
  void abort();

  // In the order of the stream; memory of the device. Errors: Error(runtime) of NCCL.

  void all_reduce(const void* in, void* out, const Reduction& what);
  void reduce(const void* in, void* out, const Reduction& what, int root);
  /// `out` gets `count` elements, `in` has as many for every rank.
  void reduce_scatter(const void* in, void* out, const Reduction& what);
  void broadcast(void* data, std::size_t bytes, int root);
  void all_gather(const void* in, void* out, std::size_t bytes);
  void send(const void* data, std::size_t bytes, int to);
  void receive(void* data, std::size_t bytes, int from);
  void copy(void* to, const void* from, std::size_t bytes);

  /// A number that each rank gives, to every rank: start() with share(number), then, when done, shared(rank).
  void share(std::uint64_t number);
  void fetch_shared();
  std::uint64_t shared(int rank) const;

 private:
  struct Inside;
  std::unique_ptr<Inside> in_;
};

}  // namespace detail
}  // namespace core
