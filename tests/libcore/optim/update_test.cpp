// The update loops give the same bits for an array of any length as for its elements one by one: whole vectors, what is
// left over behind them, and single numbers round alike.
#include "libcore/optim/update.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "libcore/backend/threads.h"

namespace {

using core::detail::AdamUpdate;

template <class T>
std::vector<T> numbers(std::int64_t count, double scale, bool positive = false) {
  std::vector<T> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = scale * std::sin(static_cast<double>(7 * i + 1));
    result.push_back(static_cast<T>(positive ? std::abs(value) : value));
  }
  return result;
}

struct AdamCase {
  double weight_decay;
  bool decoupled, maximize, amsgrad;
};

template <class T>
struct AdamArrays {
  std::vector<T> p, g, m, v, top;
  explicit AdamArrays(std::int64_t n)
      : p(numbers<T>(n, 2)),
        g(numbers<T>(n, 0.5)),
        m(numbers<T>(n, 0.1)),
        v(numbers<T>(n, 0.01, true)),
        top(numbers<T>(n, 0.02, true)) {}
  void update(std::int64_t from, std::int64_t count, const AdamUpdate& how, bool amsgrad) {
    core::detail::update_adam<T>({p.data() + from, g.data() + from, count},
                                 {m.data() + from, v.data() + from, amsgrad ? top.data() + from : nullptr}, how);
  }
};

template <class T>
void check_adam(const AdamCase& c, std::int64_t n) {
  AdamUpdate how{.common = {0.01, c.weight_decay, c.maximize},
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .eps = 1e-8,
                 .decoupled = c.decoupled};
  core::detail::set_step(how, 3);
  AdamArrays<T> whole(n), single(n);
  whole.update(0, n, how, c.amsgrad);
  for (std::int64_t i = 0; i < n; ++i) single.update(i, 1, how, c.amsgrad);
  EXPECT_EQ(whole.p, single.p) << n;
  EXPECT_EQ(whole.m, single.m) << n;
  EXPECT_EQ(whole.v, single.v) << n;
  EXPECT_EQ(whole.top, single.top) << n;
}

TEST(Update, AdamRoundsAlikeAtEveryLength) {
  for (const AdamCase& c :
       {AdamCase{0, false, false, false}, {0.1, false, true, true}, {0.1, true, false, true}, {0, true, true, false}}) {
    for (std::int64_t n : {0, 1, 3, 8, 15, 16, 17, 31, 100}) {
      check_adam<float>(c, n);
      check_adam<double>(c, n);
    }
  }
}

TEST(Update, AdamFollowsItsFormula) {
  AdamUpdate how{.common = {0.01, 0.1, false}, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .decoupled = true};
  core::detail::set_step(how, 2);
  double p = 2, g = 0.5, m = 0.1, v = 0.04;
  core::detail::update_adam<double>({&p, &g, 1}, {&m, &v, nullptr}, how);
  EXPECT_NEAR(m, 0.9 * 0.1 + 0.1 * 0.5, 1e-15);
  EXPECT_NEAR(v, 0.99 * 0.04 + 0.01 * 0.25, 1e-15);
  const double step = 0.01 * (m / (1 - 0.81)) / (std::sqrt(v / (1 - 0.99 * 0.99)) + 1e-8);
  EXPECT_NEAR(p, 2 * (1 - 0.01 * 0.1) - step, 1e-14);
}

TEST(Update, SgdRoundsAlikeAtEveryLength) {
  for (bool nesterov : {false, true}) {
    const core::detail::SgdUpdate how{{0.1, 0.01, true}, 0.9, nesterov ? 0.0 : 0.2, nesterov, false};
    for (std::int64_t n : {1, 7, 16, 33}) {
      auto p = numbers<float>(n, 2), buffer = numbers<float>(n, 0.3);
      auto single_p = p, single_buffer = buffer;
      const auto g = numbers<float>(n, 0.5);
      core::detail::update_sgd<float>({p.data(), g.data(), n}, buffer.data(), how);
      for (std::int64_t i = 0; i < n; ++i) {
        core::detail::update_sgd<float>({single_p.data() + i, g.data() + i, 1}, single_buffer.data() + i, how);
      }
      EXPECT_EQ(p, single_p);
      EXPECT_EQ(buffer, single_buffer);
    }
  }
}

TEST(UpdateAdam, SeveralThreadsGiveTheBitsOfOne) {
  AdamUpdate how{.common = {0.01, 0.1, false}, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decoupled = true};
  core::detail::set_step(how, 3);
  constexpr std::int64_t kMany = 200'003;
  AdamArrays<float> one(kMany), several(kMany);
  {
    const core::ThreadLimitGuard limit(1);
    one.update(0, kMany, how, true);
  }
  const core::ThreadLimitGuard limit(3);
  several.update(0, kMany, how, true);
  EXPECT_EQ(one.p, several.p);
  EXPECT_EQ(one.m, several.m);
  EXPECT_EQ(one.v, several.v);
  EXPECT_EQ(one.top, several.top);
}

}  // namespace
