#pragma once
// The kernels of CUDA devices as plain C++ on host memory (libcore/backend/cuda/kernels/launch.h), for machines without
// a GPU: one lane, or teams of several lanes that are threads with a barrier, so that a missing barrier, wrong lane
// arithmetic and races show, the more so under the thread sanitizer. CKPT_EMULATED_LANES=256 makes every team
// of a test program so wide, whatever the test asks for, unless that is one lane: a GPU's teams have 32 to 512.
// Thread safety: one test at a time. Use: test::Lanes lanes(8); ... call a slot ...; EXPECT_FALSE(test::took_flag());

#include <cstdint>

namespace core::gpu {
class Cudnn;
}

namespace test {

/// Teams have so many lanes for as long as this lives; one, or CKPT_EMULATED_LANES, otherwise. REQUIRES: a power of
/// two.
class Lanes {
 public:
  explicit Lanes(int count);
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
};

/// Teams can share so many bytes for as long as this lives; as many as on an H100 otherwise.
class SharedLimit {
 public:
  explicit SharedLimit(std::int64_t bytes);
  ~SharedLimit();
  SharedLimit(const SharedLimit&) = delete;
  SharedLimit& operator=(const SharedLimit&) = delete;
};

/// What convolutions go by from now on; null: by kernels alone.
void set_cudnn(core::gpu::Cudnn* cudnn);

/// Whether a kernel has raised the flag of the device since the last call.
bool took_flag();

}  // namespace test
