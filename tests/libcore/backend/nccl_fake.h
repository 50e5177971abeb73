#pragma once
// A simulated NCCL on a simulated driver: collectives run in the order of the streams of all ranks, sums are taken rank
// after rank. Thread safety: one lives at a time. Use: test::FakeNccl nccl(driver); driver.set_nccl(&nccl.nccl());

#include <functional>
#include <string>
#include <vector>

#include "libcore/backend/cuda/nccl.h"
#include "tests/libcore/backend/cuda_fake.h"

namespace test {

class FakeNccl {
 public:
  explicit FakeNccl(FakeDriver& driver);
  ~FakeNccl();
  core::gpu::Nccl& nccl() { return nccl_; }

  int communicators = 0;  ///< alive
  int made = 0;           ///< calls of ncclCommInitAll
  int broadcasts = 0;     ///< groups
  int sums = 0;
  int failure = 0;  ///< what ncclCommInitAll and collectives give

 private:
  friend struct FakeNcclCalls;
  struct Part {
    const void* in;
    void* out;
    std::size_t count;
    int type;
    int root;
    int gpu;
    void* stream;
    bool is_sum;
  };
  void run_group();
  static void compute(const std::vector<Part>& parts);

  FakeDriver& driver_;
  std::vector<Part> group_;
  std::vector<void*> events_;
  core::gpu::Nccl nccl_;
};

}  // namespace test
