#pragma once
// x * W^T for a few rows x and a large W, as Linear has it with a small batch. Up to 11 rows it is dot products that
// read W once, as fast as memory gives it (8 rows of 9216 by 4096: 7.4 ms where oneDNN 2.6 takes 17 on Zen 5). From 12
// on the library is faster when it is asked for W * x^T, whose transpose is then taken (2x at 16 rows, 1.4x at 32, even
// at 64). Thread safety: pure function. Use: if (few_rows_product({p, a, b, c, beta})) return;

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

/// False where this way does not pay; then nothing was done.
bool few_rows_product(const OneProduct& product);

}  // namespace core::cpu
