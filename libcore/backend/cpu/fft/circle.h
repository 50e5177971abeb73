#pragma once
// Points of the unit circle, and what is kept of lengths that were transformed. Thread safety: all functions.
// Use: auto [cosine, sine] = circle_point(1, 8);

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numbers>
#include <unordered_map>

namespace core::fourier {

struct CirclePoint {
  double cosine, sine;
};

/// Of the angle 2 pi k / n, 0 <= k < n: by angles up to an eighth of the circle, which are exact to the last bit but
/// one.
inline CirclePoint circle_point(std::int64_t k, std::int64_t n) {
  std::int64_t halves = 2 * k;  // of pi / n
  const bool lower = halves > n;
  if (lower) halves = 2 * n - halves;
  const bool left = 2 * halves > n;
  if (left) halves = n - halves;
  const bool steep = 4 * halves > n;
  const double angle =
      std::numbers::pi * static_cast<double>(steep ? n - 2 * halves : 2 * halves) / static_cast<double>(2 * n);
  const double x = steep ? std::sin(angle) : std::cos(angle), y = steep ? std::cos(angle) : std::sin(angle);
  return {left ? -x : x, lower ? -y : y};
}

/// The plan of a length, made where none is kept. Plans of up to so many numbers in all are kept.
template <class Plan>
std::shared_ptr<const Plan> kept_plan(std::int64_t length) {
  using PlanPtr = std::shared_ptr<const Plan>;
  constexpr std::size_t kMostKept = 1 << 20;
  static std::mutex mutex;
  static auto* const kept = new std::unordered_map<std::int64_t, PlanPtr>;
  static std::size_t numbers = 0;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = kept->find(length); found != kept->end()) return found->second;
  }
  PlanPtr plan = std::make_shared<const Plan>(length);
  const auto size = static_cast<std::size_t>(length);
  const std::lock_guard lock(mutex);
  if (size > kMostKept || !kept->emplace(length, plan).second) return plan;
  numbers += size;
  if (numbers <= kMostKept) return plan;
  kept->clear();
  kept->emplace(length, plan);
  numbers = size;
  return plan;
}

}  // namespace core::fourier
