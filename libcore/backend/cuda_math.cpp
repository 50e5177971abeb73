#include "libcore/backend/cuda_math.h"

#include <atomic>

namespace core::cuda {
namespace {

std::atomic<bool> tf32_allowed{false};

}  // namespace

void set_allow_tf32(bool allowed) {
  tf32_allowed = allowed;
}

bool is_tf32_allowed() {
  return tf32_allowed.load(std::memory_order_relaxed);
}

}  // namespace core::cuda
