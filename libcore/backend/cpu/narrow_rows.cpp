#include "libcore/backend/cpu/narrow_rows.h"

#include <cstddef>

#include "libcore/backend/cpu/thread_pool.h"
#include "libcore/backend/cpu/variants.h"

namespace core::cpu {
namespace {

constexpr std::int64_t kGrain = 32768;  // elements below which a second thread does not pay
constexpr std::int64_t kBytes = 2;      // of a number

}  // namespace

void widen_array(DType from_type, const void* from, std::int64_t count, float* to) {
  static const auto widen = CORE_BY_ISA(widen_row);
  parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    widen(from_type, static_cast<const std::byte*>(from) + begin * kBytes, end - begin, to + begin);
  });
}

void round_array(DType to_type, const float* from, std::int64_t count, void* to) {
  static const auto round = CORE_BY_ISA(round_row);
  parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    round(to_type, from + begin, end - begin, static_cast<std::byte*>(to) + begin * kBytes);
  });
}

}  // namespace core::cpu
