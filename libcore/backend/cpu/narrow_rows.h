#pragma once
// Arrays of 16 bits as f32 and back, on several threads where they are long.
// Thread safety: pure functions. Use: WideArray weight(DType::f16, p.weight, count); kernel(weight.data());

#include <cstdint>

#include "libcore/backend/cpu/gemm/few_rows.h"
#include "libcore/base/dtype.h"

namespace core::cpu {

/// `count` numbers of f16 or bf16 as f32.
void widen_array(DType from_type, const void* from, std::int64_t count, float* to);
/// The other way, to the nearest.
void round_array(DType to_type, const float* from, std::int64_t count, void* to);

namespace {

/// An array as f32, for the time of one call; null where there is none.
class WideArray {
 public:
  WideArray(DType type, const void* from, std::int64_t count) : memory_(from ? count : 0), here_(from != nullptr) {
    if (here_) widen_array(type, from, count, memory_.data());
  }
  float* data() const { return here_ ? memory_.data() : nullptr; }

 private:
  CallMemory memory_;
  bool here_;
};

}  // namespace
}  // namespace core::cpu
