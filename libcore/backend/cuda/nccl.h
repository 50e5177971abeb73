#pragma once
// Collective copies and sums between GPUs by NCCL, which is loaded when it is first asked for: neither its header nor
// its library is needed to build, and a machine without it copies from GPU to GPU instead. Communicators are made once
// for each list of GPUs and kept. Thread safety: all functions; collectives of several threads take turns.
// Use: if (Nccl* nccl = api.collectives(); nccl != nullptr && nccl->connect(gpus)) nccl->broadcast(ranks, bytes);

#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "libcore/backend/cuda/cuda_api.h"
#include "libcore/base/dtype.h"

namespace core::gpu {

/// The calls of NCCL; numbers of ncclResult_t, 0 is success. `type` is ncclDataType_t, `op` ncclRedOp_t.
struct NcclApi {
  int (*version)(int* version);
  int (*init_all)(void** communicators, int count, const int* gpus);
  int (*destroy)(void* communicator);
  int (*group_start)();
  int (*group_end)();
  int (*broadcast)(const void* send, void* receive, std::size_t count, int type, int root, void* communicator,
                   void* stream);
  int (*reduce)(const void* send, void* receive, std::size_t count, int type, int op, int root, void* communicator,
                void* stream);
  const char* (*error_text)(int error);
};

class Nccl {
 public:
  explicit Nccl(const NcclApi& api) : api_(api) {}
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;
  ~Nccl();

  /// 22809 is 2.28.9.
  int version() const;
  /// Whether NCCL can sum this type.
  static bool can_sum(DType dtype);
  /// Makes the communicators of these GPUs, all different; false, after a warning, when NCCL cannot. Asked once a list.
  bool connect(std::span<const int> gpus);

  /// One GPU's side of a collective, which is started on `stream`.
  struct Rank {
    int gpu;
    const void* in;
    void* out;
    StreamHandle stream;
  };
  /// The bytes at `in` of the first rank, at every rank's `out`. REQUIRES: connect() of these GPUs in this order.
  /// Error(runtime) "NCCL Error 1: unhandled cuda error ..."
  void broadcast(std::span<const Rank> ranks, std::size_t bytes);
  /// The sums over `in` of all ranks, at `out` of rank `root` alone.
  void reduce(std::span<const Rank> ranks, std::size_t root, std::size_t count, DType dtype);

 private:
  using Communicators = std::vector<void*>;
  void check(int error) const;
  const Communicators& of(std::span<const Rank> ranks) const;
  template <class Start>
  void run(std::span<const Rank> ranks, Start start);

  const NcclApi api_;
  std::mutex mutex_;
  std::map<std::vector<int>, Communicators> communicators_;  // none: NCCL refused
};

/// Null where NCCL is not installed.
Nccl* loaded_nccl();

}  // namespace core::gpu
