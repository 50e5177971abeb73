#pragma once
// Ring: a vector as Gloo cuts it for its sums over all ranks: a chunk a rank, which consists of segments of at most 1
// MiB. Whoever adds by it has Gloo's bits: chunk c begins with the values of rank c - 1, to which those of c - 2, c - 3
// and so on are added, each as the first operand, at last those of rank c. Internal to dist. Thread safety: plain
// values. Use: Ring ring(bytes, 4, ranks); ring.begin(rank);

#include <algorithm>
#include <cstdint>

namespace core::distributed {

class Ring {
 public:
  /// `element`: bytes of one.
  Ring(std::int64_t bytes, std::int64_t element, int size) : bytes_(bytes) {
    constexpr std::int64_t kLongest = std::int64_t{1} << 20;
    const std::int64_t longest = element * std::max<std::int64_t>(1, kLongest / element);
    const std::int64_t wanted = std::max<std::int64_t>(up(bytes, longest) / longest, std::int64_t{2} * size);
    const std::int64_t segments = up(wanted, size);
    const std::int64_t segment = up(up(bytes, segments) / segments, element);
    chunk_ = segments / size * segment;
  }
  // Of a chunk, in bytes.
  std::int64_t begin(int chunk) const { return std::min(chunk * chunk_, bytes_); }
  std::int64_t length(int chunk) const { return std::min(begin(chunk) + chunk_, bytes_) - begin(chunk); }

 private:
  static std::int64_t up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }
  std::int64_t bytes_;
  std::int64_t chunk_ = 0;
};

}  // namespace core::distributed
