#include "libcore/backend/random_stream.h"

#include <cmath>
#include <numbers>

namespace core::detail {

GraphRandom::Numbers take_numbers(void* stream, std::uint64_t used) {
  auto& from = *static_cast<RandomStream*>(stream);
  const std::scoped_lock lock(from.mutex);
  const GraphRandom::Numbers numbers{from.seed, from.offset};
  from.offset += used;
  return numbers;
}

double normal64(RandomStream& stream) {
  if (stream.cached_normal) {
    double value = *stream.cached_normal;
    stream.cached_normal.reset();
    return value;
  }
  double u1 = uniform64(stream.engine);
  double u2 = uniform64(stream.engine);
  double radius = std::sqrt(-2.0 * std::log1p(-u2));
  double theta = 2.0 * std::numbers::pi * u1;
  stream.cached_normal = radius * std::sin(theta);
  return radius * std::cos(theta);
}

}  // namespace core::detail
