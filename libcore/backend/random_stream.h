#pragma once
// What a Generator holds, and the elementary draws on it. For the functions that fill buffers; users see Generator.
// Thread safety: hold `mutex` around every draw. Use: std::scoped_lock lock(stream.mutex); detail::uniform64(stream);

#include <memory>
#include <mutex>
#include <optional>

#include "libcore/backend/graph_random.h"
#include "libcore/backend/mt19937.h"
#include "libcore/base/device.h"

namespace core::detail {

struct RandomStream : std::enable_shared_from_this<RandomStream> {
  RandomStream(Device where, std::uint64_t start_seed) : device(where), engine(start_seed), seed(start_seed) {}

  std::mutex mutex;
  Device device;
  Mt19937 engine;                       ///< CPU
  std::optional<double> cached_normal;  ///< CPU: second value of the last pair, for the next single draw of any dtype
  std::uint64_t seed;                   ///< CUDA: key of the Philox counter generator
  std::uint64_t offset = 0;             ///< CUDA: numbers used up, a multiple of 4
};

/// [0, 1) with 24 bits.
inline float uniform32(Mt19937& engine) {
  return static_cast<float>(engine.next() & 0xffffffU) * 0x1p-24F;
}
/// [0, 1) with 53 bits.
inline double uniform64(Mt19937& engine) {
  return static_cast<double>(engine.next64() & ((1ULL << 53) - 1)) * 0x1p-53;
}
/// Of a stream of a CUDA generator, for graphs that draw from it: where it stands, before it moves on by `used`.
GraphRandom::Numbers take_numbers(void* stream, std::uint64_t used);
/// One standard normal value by the Box-Muller rule; every second call returns the value kept by the first.
double normal64(RandomStream& stream);

}  // namespace core::detail
