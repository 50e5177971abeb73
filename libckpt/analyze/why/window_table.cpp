#include "libckpt/analyze/why/window_table.h"

namespace ckpt::detail {
namespace {

constexpr std::int64_t kMaxWindow = 64;

}  // namespace

std::int64_t window_of(const core::Shape& biases, const core::Shape& shape) {
  if (biases.size() != 2) return 0;
  for (std::int64_t window = 1; window <= kMaxWindow; ++window) {
    if ((2 * window - 1) * (2 * window - 1) != biases[0]) continue;
    const std::int64_t places = window * window;
    bool fits = shape == core::Shape{places * places} || shape == core::Shape{places, places};
    return fits ? window : 0;
  }
  return 0;
}

std::optional<core::Shape> usual_table_shape(std::string_view key, const core::Shape& biases) {
  if (biases.size() != 2) return std::nullopt;
  for (std::int64_t window = 1; window <= kMaxWindow; ++window) {
    if ((2 * window - 1) * (2 * window - 1) != biases[0]) continue;
    const std::int64_t places = window * window;
    const bool flat = key.starts_with("features.") || key.find(".features.") != std::string_view::npos;
    return flat ? core::Shape{places * places} : core::Shape{places, places};
  }
  return std::nullopt;
}

core::ByteVector window_table(std::int64_t window) {
  core::ByteVector out;
  const std::int64_t places = window * window;
  out.reserve(static_cast<std::size_t>(places * places) * sizeof(std::int64_t));
  for (std::int64_t a = 0; a < places; ++a) {
    for (std::int64_t b = 0; b < places; ++b) {
      const std::int64_t down = a / window - b / window + window - 1;
      const std::int64_t right = a % window - b % window + window - 1;
      const std::int64_t row = down * (2 * window - 1) + right;
      const auto* bytes = reinterpret_cast<const std::byte*>(&row);
      out.insert(out.end(), bytes, bytes + sizeof(row));
    }
  }
  return out;
}

}  // namespace ckpt::detail
