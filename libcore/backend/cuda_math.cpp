#include "libcore/backend/cuda_math.h"

#include <atomic>

namespace core {
namespace {

std::atomic<bool> products_in_tf32{false};
std::atomic<bool> convolutions_in_tf32{true};

}  // namespace

void cuda::set_allow_tf32(bool allowed) {
  products_in_tf32 = allowed;
}

bool cuda::is_tf32_allowed() {
  return products_in_tf32.load(std::memory_order_relaxed);
}

void cudnn::set_allow_tf32(bool allowed) {
  convolutions_in_tf32 = allowed;
}

bool cudnn::is_tf32_allowed() {
  return convolutions_in_tf32.load(std::memory_order_relaxed);
}

}  // namespace core
