#pragma once
// x * W^T for a few rows x and a large W, as Linear has it with a small batch. Up to 11 rows it is dot products that
// read W once, as fast as memory gives it (8 rows of 9216 by 4096: 7.4 ms where oneDNN 2.6 takes 17 on Zen 5). From 12
// on the library is faster when it is asked for W * x^T, whose transpose is then taken (2x at 16 rows, 1.4x at 32, even
// at 64), and faster still where W is not packed at all (few_rows_wide.cpp; 2x at 32 rows), with the same bits. On
// several threads that stays so for many more rows, because W is cut between them (50 rows of 3072 by 768: 0.7 ms on
// two threads where the library takes 2.2; 128 rows: 1.3 and 3.0).
//
// Thread safety: pure functions. Use: if (few_rows_product({p, a, b, c, beta})) return;

#include <cstddef>
#include <cstdint>

#include "libcore/backend/host_memory.h"
#include "libcore/backend/op_params.h"

namespace core::cpu {

/// One product of a batch of them.
struct OneProduct {
  const GemmParams& params;  ///< sizes, transposition, alpha
  const float* a;
  const float* b;
  float* c;
  float beta;
};

namespace {

/// Numbers for the time of one call. In an anonymous namespace on purpose: see vector.h.
class CallMemory {
 public:
  explicit CallMemory(std::int64_t elements)
      : bytes_(static_cast<std::size_t>(elements) * sizeof(float)), data_(host_allocate(bytes_)) {}
  ~CallMemory() { host_free(data_, bytes_); }
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;
  float* data() const { return static_cast<float*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

}  // namespace

/// `product` as its parameters say, bias too. False where this way does not pay; then nothing was done.
bool wide_rows_product(const OneProduct& product);
/// `product` with the bias in c already. False where this way does not pay; then nothing was done.
bool few_rows_product(const OneProduct& product);

}  // namespace core::cpu
