#include "libcore/tensor/random_gradients.h"

#include <array>
#include <cmath>
#include <limits>
#include <span>

namespace core::detail {
namespace {

/// c[0] + x * (c[1] + x * (...)).
double polynomial(std::span<const double> c, double x) {
  double value = 0;
  for (std::size_t i = c.size(); i > 0; --i) value = value * x + c[i - 1];
  return value;
}

/// For x > 0: the recurrence up to 10, from there the asymptotic series.
double digamma(double x) {
  if (x == 0) return std::numeric_limits<double>::infinity();
  double below = 0;
  for (; x < 10; x += 1) below -= 1 / x;
  constexpr std::array kSeries{1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const double z = 1 / (x * x);
  return below + std::log(x) - 0.5 / x - z * polynomial(kSeries, z);
}

double or_zero(double value) {
  return std::isnan(value) ? 0 : value;
}

/// Taylor series of the distribution function around 0.
double gamma_small(double alpha, double x) {
  double term = 1, by_x = 1 / alpha, by_alpha = 1 / (alpha * alpha);
  for (int i = 1; i <= 5; ++i) {
    const double place = alpha + i;
    term *= -x / i;
    by_x += term / place;
    by_alpha += term / (place * place);
  }
  const double power = std::pow(x, alpha), density = std::pow(x, alpha - 1) * std::exp(-x);
  const double slope = (std::log(x) - digamma(alpha)) * power * by_x - power * by_alpha;
  return or_zero(-slope / density);
}

/// Rice's saddle point expansion.
double gamma_large(double alpha, double x) {
  if (0.9F * alpha <= x && x <= 1.1F * alpha) {
    const double first = 1 + 24 * alpha * (1 + 12 * alpha);
    const double second = 1440 * alpha * alpha + 6 * x * (53 - 120 * x) - 65 * x * x / alpha + alpha * (107 + 3600 * x);
    return first * second / (1244160 * alpha * alpha * alpha * alpha);
  }
  const double scale = std::sqrt(8 * alpha), ratio = std::log(x / alpha), apart = alpha - x;
  const double tail = std::pow(x - alpha - alpha * ratio, -1.5);
  const double both = scale / apart + (x < alpha ? -tail : tail);
  const double sum = ratio * both - std::sqrt(2 / alpha) * (alpha + x) / (apart * apart);
  const double stirling = 1 + 1 / (12 * alpha) * (1 + 1 / (24 * alpha));
  return -stirling * x * sum / scale;
}

/// A rational function of two logarithms.
double gamma_middle(double alpha, double x) {
  constexpr double kTable[3][8] = {
      {0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1, 0.32668115, 0.10406089, 0.0014179084},
      {0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915, -0.00058392623},
      {0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326, 0.00085092367,
       -1.5247877e-07},
  };
  const double u = std::log(x / alpha), v = std::log(alpha);
  std::array<double, 8> c{};
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = kTable[0][i] + u * (kTable[1][i] + u * kTable[2][i]);
  return std::exp(polynomial(std::span(c).first(4), v) / polynomial(std::span(c).last(4), v));
}

/// By alpha, for x near 0: a Taylor series.
double beta_small(double x, double alpha, double beta) {
  const double factor = digamma(alpha) - digamma(alpha + beta) - std::log(x);
  double term = 1, sum = (factor + 1 / alpha) / alpha;
  for (int i = 1; i <= 10; ++i) {
    const double place = alpha + i;
    term *= (i - beta) * x / i;
    sum += term / place * (factor + 1 / place);
  }
  return or_zero(x * std::pow(1 - x, -beta) * sum);
}

/// By beta, for x near 0.
double beta_small_by_beta(double x, double alpha, double beta) {
  const double factor = digamma(alpha + beta) - digamma(beta);
  double term = 1, product = 1, slope = 0, sum = factor / alpha;
  for (int i = 1; i <= 8; ++i) {
    term *= -x / i;
    slope = slope * (beta - i) + product;
    product *= beta - i;
    sum += term / (alpha + i) * (slope + factor * product);
  }
  return or_zero(-std::pow(1 - x, 1 - beta) * sum);
}

/// Near the mean, where the expansion below has a hole.
double beta_at_mean(double x, double alpha, double beta) {
  const double total = alpha + beta, square = beta * beta;
  const std::array in_alpha{47 * x * square * square, (43 + 20 * (16 + 27 * beta) * x) * square * beta,
                            3 * (59 + 180 * beta - 90 * x) * square, (453 + 1620 * beta * (1 - x) - 455 * x) * beta,
                            8 * (1 - x) * (135 * beta - 11)};
  const double over = (1 + 12 * alpha) * (1 + 12 * beta) / (total * total);
  const double under = 12960 * alpha * alpha * alpha * square * (1 + 12 * total);
  return over / (1 - x) * polynomial(in_alpha, alpha) / under;
}

double stirling(double x) {
  return 1 + 1 / (12 * x) + 1 / (288 * x * x);
}

/// Rice's saddle point expansion for large alpha and beta.
double beta_large(double x, double alpha, double beta) {
  const double total = alpha + beta, mean = alpha / total;
  const double deviation = std::sqrt(alpha * beta / (total + 1)) / total;
  if (std::abs(x - mean) <= 0.1 * deviation) return beta_at_mean(x, alpha, beta);
  const double apart = alpha * (x - 1) + beta * x;
  const double first = (2 * alpha * alpha * (x - 1) + alpha * beta * (x - 1) - x * beta * beta) /
                       (std::sqrt(2 * alpha / beta) * std::pow(total, 1.5) * apart * apart);
  const double at_alpha = std::log(alpha / (total * x)), at_beta = std::log(beta / (total * (1 - x)));
  const double tail = std::pow(beta * at_beta + alpha * at_alpha, -1.5);
  const double second = 0.5 * at_alpha * (std::sqrt(8 * alpha * beta / total) / apart + (x < mean ? tail : -tail));
  const double scale = stirling(alpha) * stirling(beta) / stirling(total);
  return -x / std::sqrt(2 * alpha * beta / total) * scale * (first + second);
}

/// A rational correction of an analytic approximation.
double beta_middle(double x, double alpha, double total) {
  constexpr double kTable[2][3][3][4] = {
      {{{1.003668233, -0.01061107488, -0.0657888334, 0.01201642863},
        {0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033},
        {-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013}},
       {{0.221950385, -0.3187676331, 0.01799915743, 0.01074823814},
        {-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057},
        {0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05}},
       {{-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565},
        {0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181},
        {0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05}}},
      {{{1, -0.02924021934, -0.04438342661, 0.007285809825},
        {0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521},
        {-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149}},
       {{0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273},
        {0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956},
        {-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05}},
       {{0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05},
        {0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05},
        {-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06}}},
  };
  const double u = std::log(x), a = std::log(alpha) - u, b = std::log(total) - a;
  std::array<double, 2> sums{};
  for (std::size_t which = 0; which < 2; ++which) {
    std::array<double, 3> in_u{};
    for (std::size_t i = 0; i < 3; ++i) {
      std::array<double, 3> in_a{};
      for (std::size_t j = 0; j < 3; ++j) in_a[j] = polynomial(kTable[which][i][j], b);
      in_u[i] = polynomial(in_a, a);
    }
    sums[which] = polynomial(in_u, u);
  }
  return sums[0] / sums[1] * x * (digamma(total) - digamma(alpha)) / (total - alpha);
}

}  // namespace

double standard_gamma_grad(double alpha, double x) {
  if (x < 0.8F) return gamma_small(alpha, x);
  return alpha > 8 ? gamma_large(alpha, x) : gamma_middle(alpha, x);
}

double dirichlet_grad(double x, double alpha, double total) {
  const double beta = total - alpha, edge = total * x * (1 - x);
  if (x <= 0.5 && edge < 2.5) return beta_small(x, alpha, beta);
  if (x >= 0.5 && edge < 0.75) return -beta_small_by_beta(1 - x, beta, alpha);
  if (alpha > 6 && beta > 6) return beta_large(x, alpha, beta);
  return beta_middle(x, alpha, total);
}

}  // namespace core::detail
