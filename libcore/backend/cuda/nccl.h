#pragma once
// Collective copies and sums between GPUs by NCCL, which is loaded when it is first asked for: neither its header nor
// its library is needed to build, and a machine without it copies from GPU to GPU instead. Communicators of the GPUs of
// this process are made once for each list of GPUs and kept; those between processes are nccl_rank.h's. Thread safety:
// all functions; collectives of several threads take turns. Use: if (Nccl* nccl = api.collectives(); nccl != nullptr &&
// nccl->connect(gpus)) nccl->broadcast(ranks, bytes);

#include <cstddef>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "libcore/backend/cuda/cuda_api.h"
#include "libcore/base/dtype.h"

namespace core::gpu {

/// ncclUniqueId: by which the processes of a communicator find each other.
struct NcclId {
  char bytes[128];
};

/// The part of ncclConfig_t that every version since 2.14 takes.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;  ///< calls return at once, and async_error() says when they are done
};

inline constexpr int kNcclInProgress = 7;  ///< ncclInProgress

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

  // Between processes. Null where NCCL is older than 2.14.

  int (*unique_id)(NcclId* id);
  int (*init_rank)(void** communicator, int size, NcclId id, int rank, NcclConfig* config);
  int (*async_error)(void* communicator, int* error);
  int (*finalize)(void* communicator);
  int (*abort)(void* communicator);
  const char* (*last_error)(void* communicator);
  int (*all_reduce)(const void* send, void* receive, std::size_t count, int type, int op, void* communicator,
                    void* stream);
  int (*all_gather)(const void* send, void* receive, std::size_t count, int type, void* communicator, void* stream);
  int (*reduce_scatter)(const void* send, void* receive, std::size_t count, int type, int op, void* communicator,
                        void* stream);
  int (*send)(const void* data, std::size_t count, int type, int peer, void* communicator, void* stream);
  int (*receive)(void* data, std::size_t count, int type, int peer, void* communicator, void* stream);
  /// An op that multiplies by the number at `factor`, of `type`, in host memory (residence 1), and adds.
  int (*make_premul)(int* op, void* factor, int type, int residence, void* communicator);
  int (*destroy_op)(int op, void* communicator);
};

class Nccl {
 public:
  explicit Nccl(const NcclApi& api) : api_(api) {}
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;
  ~Nccl();

  const NcclApi& api() const { return api_; }
  /// 22809 is 2.28.9.
  int version() const;
  /// Whether this version has what processes need.
  bool has_ranks() const { return api_.init_rank != nullptr; }
  /// Whether NCCL can sum this type.
  static bool can_sum(DType dtype) { return type_of(dtype) >= 0; }
  /// ncclDataType_t; -1 where there is none.
  static int type_of(DType dtype);
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
