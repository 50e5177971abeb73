// The strong-Wolfe line search of LBFGS: first a bracket that holds a good point, then a zoom into it.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "libcore/ops/blas.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/optim/lbfgs.h"
#include "libcore/tensor/tensor.h"

namespace core::detail {
namespace {

constexpr double kDecrease = 1e-4;  // of the slope that the loss has to fall by
constexpr double kFlatter = 0.9;    // how much of the slope may be left

/// The minimum of the cubic through two points and their slopes, kept in [low, high].
double cubic_minimum(const LinePoint& a, const LinePoint& b, double low, double high) {
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double at = a.t <= b.t ? b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
                               : a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2));
  return std::min(std::max(at, low), high);
}

class Search {
 public:
  Search(const WolfeSearch& search, const LinePoint& start) : search_(search), start_(start) { start_.t = 0; }

  WolfeResult run(double first) {
    bracket(first);
    if (!done_) zoom();
    return {points_[low_], evaluations_};
  }

 private:
  LinePoint at(double t) {
    auto [loss, gradient] = search_.evaluate(t);
    ++evaluations_;
    const double slope = dot(gradient, search_.direction).item<double>();
    return {t, loss, std::move(gradient), slope};
  }
  bool falls_too_little(const LinePoint& p) const { return p.loss > start_.loss + kDecrease * p.t * start_.slope; }
  bool is_flat(const LinePoint& p) const { return std::abs(p.slope) <= -kFlatter * start_.slope; }
  void choose_low() { low_ = points_[0].loss <= points_[1].loss ? 0 : 1; }

  void bracket(double first) {
    LinePoint before = start_, now = at(first);
    for (; steps_ < search_.max_steps; ++steps_) {
      if (falls_too_little(now) || (steps_ > 1 && now.loss >= before.loss)) return set(before, now);
      if (is_flat(now)) {
        done_ = true;
        return set(now, now);
      }
      if (now.slope >= 0) return set(before, now);
      const double next = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10);
      before = std::exchange(now, at(next));
    }
    set(start_, now);
  }

  void set(const LinePoint& a, const LinePoint& b) {
    points_ = {a, b};
    choose_low();
  }

  /// A place inside the bracket that is not too near to its ends twice in a row.
  double next_place() {
    const auto [least, most] = std::minmax(points_[0].t, points_[1].t);
    double t = cubic_minimum(points_[0], points_[1], least, most);
    const double margin = 0.1 * (most - least);
    const bool near_end = std::min(most - t, t - least) < margin;
    if (!near_end) {
      stuck_ = false;
    } else if (stuck_ || t >= most || t <= least) {
      t = std::abs(t - most) < std::abs(t - least) ? most - margin : least + margin;
      stuck_ = false;
    } else {
      stuck_ = true;
    }
    return t;
  }

  void zoom() {
    const double width = abs(search_.direction).max().item<double>();
    for (; !done_ && steps_ < search_.max_steps; ++steps_) {
      LinePoint& low = points_[low_];
      LinePoint& high = points_[1 - low_];
      if (std::abs(points_[1].t - points_[0].t) * width < search_.tolerance_change) return;
      const LinePoint now = at(next_place());
      if (falls_too_little(now) || now.loss >= low.loss) {
        high = now;
        choose_low();
        continue;
      }
      if (is_flat(now)) {
        done_ = true;
      } else if (now.slope * (high.t - low.t) >= 0) {
        high = low;
      }
      low = now;
    }
  }

  const WolfeSearch& search_;
  LinePoint start_;
  std::array<LinePoint, 2> points_;
  std::size_t low_ = 0;
  bool done_ = false, stuck_ = false;
  std::int64_t steps_ = 0, evaluations_ = 0;
};

}  // namespace

WolfeResult strong_wolfe(const WolfeSearch& search, const LinePoint& start) {
  return Search(search, start).run(start.t);
}

}  // namespace core::detail
