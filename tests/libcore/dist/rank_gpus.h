#pragma once
// The GPUs of a rank whose backend is nccl (CKPT_TEST_BACKEND): those of the machine, or, where it has none, simulated
// ones: so many as there are ranks, or as CKPT_FAKE_GPUS says, on which the CPU's kernels compute.
// Thread safety: made at the start of main(). Use: const test::RankGpus gpus; tensor.to(test::rank_device());

#include <memory>

#include "libcore/base/device.h"

namespace test {

class RankGpus {
 public:
  /// CKPT_FAKE_GPUS=2,1: two of rank 0, one of rank 1; so does CKPT_FAKE_NCCL. CKPT_FAKE_NCCL=none: without the
  /// library; old: with a version that cannot do it. CKPT_FAKE_STREAMS=lazy: work is done when it is asked for, so that
  /// a missing order shows as other values (copies and what NCCL does; kernels are done at once).
  RankGpus();
  ~RankGpus();
  RankGpus(const RankGpus&) = delete;
  RankGpus& operator=(const RankGpus&) = delete;

 private:
  struct Simulated;
  std::unique_ptr<Simulated> simulated_;
};

/// Where a rank's tensors lie: cuda:LOCAL_RANK with the backend nccl, else the CPU.
core::Device rank_device();
/// Whether they are those of the machine, where CKPT_GOLDEN_GPU=1 wants no others.
bool may_run_on_these_gpus();
/// Whether so many ranks have a GPU each.
bool has_gpus_for(int ranks);

/// What became of communicators of the simulated NCCL; 0 with the real one.
int nccl_communicators_alive();
int nccl_communicators_aborted();
/// An end of another rank is an error of the simulated NCCL, not a wait without end.
void let_nccl_see_ends();

}  // namespace test
