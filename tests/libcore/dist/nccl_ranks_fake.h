#pragma once
// A simulated NCCL between processes, on a simulated driver: communicators that really exchange bytes, by local
// sockets. As hard as the real one: calls return before they are done and have to be asked for; work is in the order of
// its stream; ranks that call different things, and those whose peer is gone, wait for ever, until somebody aborts; two
// ranks of one GPU are refused. Sums are taken rank after rank. Thread safety: one lives at a time, its calls from any
// thread. Use: test::FakeNcclRanks nccl(driver); driver.set_nccl(&nccl.nccl());

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "libcore/backend/cuda/nccl.h"
#include "tests/libcore/backend/cuda_fake.h"

namespace test {

class FakeNcclRanks {
 public:
  explicit FakeNcclRanks(FakeDriver& driver);
  ~FakeNcclRanks();
  core::gpu::Nccl& nccl() { return nccl_; }

  std::atomic<int> alive{0};  ///< communicators that were neither left nor aborted
  std::atomic<int> made{0};
  std::atomic<int> aborted{0};
  std::atomic<int> started{0};         ///< groups that had something in them
  std::atomic<bool> sees_ends{false};  ///< a peer that is gone is an error of the communicator: ncclRemoteError

 private:
  friend struct FakeNcclRanksCalls;
  FakeDriver& driver_;
  core::gpu::Nccl nccl_;
};

}  // namespace test
