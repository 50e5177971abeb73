// Randomised subspace iteration: a few random columns V, twice V := D^T D V of some rows of the differences D,
// orthonormalised; of every part of the matrix U := D V, and the singular vectors of U V^T. All in one order, so that
// every processor finds the same bits; compiled so that no product and sum become one operation (CMakeLists.txt).

#include "libckpt/io/low_rank.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "libcore/backend/cpu/isa.h"

namespace ckpt::detail {
namespace {

constexpr unsigned kWide = 8;
constexpr std::size_t kLeastSide = 128;  ///< rows and columns of a matrix that factors can be found of
constexpr std::size_t kRowsAtOnce = 2;
constexpr std::size_t kSumLanes = 16;          ///< that are summed beside each other
constexpr std::size_t kGroup = 2 * kSumLanes;  ///< columns that are loaded together
constexpr double kSteps = 3.0;                 ///< that the usual factor is large

using Lanes = float __attribute__((vector_size(4 * kSumLanes), aligned(4), may_alias));
using LaneBits = std::uint32_t __attribute__((vector_size(4 * kSumLanes), aligned(1), may_alias));
using Square = std::array<std::array<double, kWide>, kWide>;

/// kWide rows of numbers, each filled up with zeros to whole groups. Of columns of a matrix, first the even ones of a
/// group, then the odd ones: two words of bfloat16 are loaded as one number.
struct Wide {
  explicit Wide(std::size_t count)
      : stride((count + kGroup - 1) / kGroup * kGroup), size(count), numbers(kWide * stride) {}
  float* row(unsigned k) { return numbers.data() + k * stride; }
  const float* row(unsigned k) const { return numbers.data() + k * stride; }
  static std::size_t place_of_column(std::size_t j) { return j / kGroup * kGroup + j % 2 * kSumLanes + j % kGroup / 2; }

  std::size_t stride;
  std::size_t size;
  std::vector<float> numbers;
};

struct Matrices {
  const std::byte* before;
  const std::byte* after;
  std::size_t columns;
};

#define CKPT_INLINE [[gnu::always_inline]] inline

/// Differences of a group of columns of one row, even and odd ones; those behind its end are zeros.
CKPT_INLINE void differences_of(const Matrices& all, std::size_t row, std::size_t j, Lanes& even, Lanes& odd) {
  const std::size_t at = 2 * (row * all.columns + j), left = all.columns - j;
  LaneBits a = {}, b = {};
  if (left >= kGroup) [[likely]] {
    a = *reinterpret_cast<const LaneBits*>(all.before + at);
    b = *reinterpret_cast<const LaneBits*>(all.after + at);
  } else {
    std::copy_n(all.before + at, 2 * left, reinterpret_cast<std::byte*>(&a));
    std::copy_n(all.after + at, 2 * left, reinterpret_cast<std::byte*>(&b));
  }
  const LaneBits even_a = a << 16, even_b = b << 16, odd_a = a & 0xffff0000U, odd_b = b & 0xffff0000U;
  even = reinterpret_cast<const Lanes&>(even_b) - reinterpret_cast<const Lanes&>(even_a);
  odd = reinterpret_cast<const Lanes&>(odd_b) - reinterpret_cast<const Lanes&>(odd_a);
}

CKPT_INLINE float sum_of(const Lanes& lanes) {
  float sums[kSumLanes];
  for (std::size_t i = 0; i < kSumLanes; ++i) sums[i] = lanes[i];
  for (std::size_t half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

CKPT_INLINE const Lanes& lanes_at(const float* from) {
  return *reinterpret_cast<const Lanes*>(from);
}

/// Some rows of D V.
CKPT_INLINE void products_of(const Matrices& all, std::size_t row, const float* v, std::size_t stride,
                             float (&out)[kRowsAtOnce][kWide]) {
  Lanes sums[kRowsAtOnce][kWide] = {};
  for (std::size_t j = 0; j < all.columns; j += kGroup) {
    Lanes even[kRowsAtOnce], odd[kRowsAtOnce];
#pragma GCC unroll 2
    for (std::size_t q = 0; q < kRowsAtOnce; ++q) differences_of(all, row + q, j, even[q], odd[q]);
#pragma GCC unroll 8
    for (unsigned k = 0; k < kWide; ++k) {
      const Lanes &of_even = lanes_at(v + k * stride + j), &of_odd = lanes_at(v + k * stride + j + kSumLanes);
#pragma GCC unroll 2
      for (std::size_t q = 0; q < kRowsAtOnce; ++q) sums[q][k] = sums[q][k] + even[q] * of_even + odd[q] * of_odd;
    }
  }
#pragma GCC unroll 2
  for (std::size_t q = 0; q < kRowsAtOnce; ++q) {
#pragma GCC unroll 8
    for (unsigned k = 0; k < kWide; ++k) out[q][k] = sum_of(sums[q][k]);
  }
}

/// Adds D^T of two such rows to `next`.
CKPT_INLINE void add_transposed(const Matrices& all, std::size_t row, const float (&by)[kRowsAtOnce][kWide],
                                float* next, std::size_t stride) {
  for (std::size_t j = 0; j < all.columns; j += kGroup) {
    Lanes even[2], odd[2];
    differences_of(all, row, j, even[0], odd[0]);
    differences_of(all, row + 1, j, even[1], odd[1]);
#pragma GCC unroll 8
    for (unsigned k = 0; k < kWide; ++k) {
      auto* sums = reinterpret_cast<Lanes*>(next + k * stride + j);
      sums[0] += even[0] * by[0][k] + even[1] * by[1][k];
      sums[1] += odd[0] * by[0][k] + odd[1] * by[1][k];
    }
  }
}

/// Brings rows near the processor: the next ones, while those before them are used.
CKPT_INLINE void fetch_rows(const Matrices& all, std::size_t row, std::size_t count) {
  for (std::size_t at = 0; at < 2 * count * all.columns; at += 64) {
    __builtin_prefetch(all.before + 2 * row * all.columns + at);
    __builtin_prefetch(all.after + 2 * row * all.columns + at);
  }
}

/// Adds D^T D V of pairs of rows, one out of `step`, to `next`.
CKPT_INLINE void iterate_over(const Matrices& all, std::size_t pairs, std::size_t step, const Wide& v, Wide& next) {
  for (std::size_t g = 0; g < pairs; g += step) {
    float rows[kRowsAtOnce][kWide];
    if (g + step < pairs) fetch_rows(all, 2 * (g + step), 2);
    products_of(all, 2 * g, v.row(0), v.stride, rows);
    add_transposed(all, 2 * g, rows, next.row(0), next.stride);
  }
}

/// Rows of D V, from `begin` to `end`, which are multiples of kRowsAtOnce.
CKPT_INLINE void project_over(const Matrices& all, std::size_t begin, std::size_t end, const Wide& v, Wide& u) {
  for (std::size_t row = begin; row < end; row += kRowsAtOnce) {
    float some[kRowsAtOnce][kWide];
    if (row + kRowsAtOnce < end) fetch_rows(all, row + kRowsAtOnce, kRowsAtOnce);
    products_of(all, row, v.row(0), v.stride, some);
    for (unsigned k = 0; k < kWide; ++k) {
      for (std::size_t q = 0; q < kRowsAtOnce; ++q) u.row(k)[row + q] = some[q][k];
    }
  }
}

struct RankKernels {
  void (*iterate)(const Matrices& all, std::size_t pairs, std::size_t step, const Wide& v, Wide& next);
  void (*project)(const Matrices& all, std::size_t begin, std::size_t end, const Wide& v, Wide& u);
};

// clang-format off
#define CKPT_RANK_KERNELS(name, target)                                                                         \
  target void iterate_##name(const Matrices& all, std::size_t pairs, std::size_t step, const Wide& v,          \
                             Wide& next) {                                                                     \
    iterate_over(all, pairs, step, v, next);                                                                   \
  }                                                                                                            \
  target void project_##name(const Matrices& all, std::size_t begin, std::size_t end, const Wide& v, Wide& u) { \
    project_over(all, begin, end, v, u);                                                                             \
  }                                                                                                            \
  constexpr RankKernels k_rank_##name = {&iterate_##name, &project_##name};
// clang-format on

CKPT_RANK_KERNELS(plain, )
#if defined(__x86_64__)
CKPT_RANK_KERNELS(avx2, [[gnu::target("avx2")]])
CKPT_RANK_KERNELS(avx512, [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]])
#endif

const RankKernels& rank_kernels() {
#if defined(__x86_64__)
  static const RankKernels& best = *core::cpu::by_isa(&k_rank_plain, &k_rank_avx2, &k_rank_avx512);
  return best;
#else
  return k_rank_plain;
#endif
}

Square products_of_rows(const Wide& of) {
  constexpr std::size_t kBeside = 4;
  static_assert(kSumLanes % kBeside == 0);
  Square out = {};
  for (unsigned a = 0; a < kWide; ++a) {
    for (unsigned b = a; b < kWide; ++b) {
      std::array<double, kBeside> sums = {};
      const float *x = of.row(a), *y = of.row(b);
      for (std::size_t i = 0; i < of.stride; i += kBeside) {
        for (std::size_t q = 0; q < kBeside; ++q) sums[q] += double{x[i + q]} * double{y[i + q]};
      }
      out[a][b] = out[b][a] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }
  }
  return out;
}

/// Row b becomes the sum over a of row a times by[a][b].
void multiply(Wide& rows, const Square& by) {
  std::array<float, kWide * kSumLanes> in;
  for (std::size_t i = 0; i < rows.stride; i += kSumLanes) {
    for (unsigned a = 0; a < kWide; ++a) std::copy_n(rows.row(a) + i, kSumLanes, in.data() + a * kSumLanes);
    for (unsigned b = 0; b < kWide; ++b) {
      std::array<float, kSumLanes> sums = {};
      for (unsigned a = 0; a < kWide; ++a) {
        const auto factor = static_cast<float>(by[a][b]);
        for (std::size_t q = 0; q < kSumLanes; ++q) sums[q] += in[a * kSumLanes + q] * factor;
      }
      std::ranges::copy(sums, rows.row(b) + i);
    }
  }
}

/// Jacobi's rotations: eigenvectors of a symmetric matrix as columns, their values on the diagonal of `of`.
Square eigenvectors(Square& of) {
  constexpr int kSweeps = 12;
  Square vectors = {};
  for (unsigned a = 0; a < kWide; ++a) vectors[a][a] = 1;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (unsigned p = 0; p < kWide; ++p) {
      for (unsigned q = p + 1; q < kWide; ++q) {
        if (of[p][q] == 0) continue;
        const double theta = (of[q][q] - of[p][p]) / (2 * of[p][q]);
        const double t = (theta < 0 ? -1 : 1) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (unsigned k = 0; k < kWide; ++k) {
          const double x = of[k][p], y = of[k][q];
          of[k][p] = c * x - s * y, of[k][q] = s * x + c * y;
        }
        for (unsigned k = 0; k < kWide; ++k) {
          const double x = of[p][k], y = of[q][k];
          of[p][k] = c * x - s * y, of[q][k] = s * x + c * y;
          const double v = vectors[k][p], w = vectors[k][q];
          vectors[k][p] = c * v - s * w, vectors[k][q] = s * v + c * w;
        }
      }
    }
  }
  return vectors;
}

/// Which of the eigenvalues on the diagonal are the largest, in order.
std::array<unsigned, kWide> order_of(const Square& values) {
  std::array<unsigned, kWide> order = {};
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::stable_sort(order, [&](unsigned a, unsigned b) { return values[a][a] > values[b][b]; });
  return order;
}

bool are_numbers(const Square& products) {
  for (unsigned k = 0; k < kWide; ++k) {
    if (!std::isfinite(products[k][k])) return false;
  }
  return true;
}

/// Rows that are orthonormal and span the same, the longest ones first; those that the others span become zeros. False
/// where some are no numbers.
bool orthonormalise(Wide& rows) {
  Square products = products_of_rows(rows);
  if (!are_numbers(products)) return false;
  const Square vectors = eigenvectors(products);
  if (!are_numbers(products)) return false;
  const std::array<unsigned, kWide> order = order_of(products);
  const double most = products[order[0]][order[0]];
  Square by = {};
  for (unsigned k = 0; k < kWide; ++k) {
    const double length = products[order[k]][order[k]];
    const double scale = length > most * 1e-10 ? 1 / std::sqrt(length) : 0;
    for (unsigned a = 0; a < kWide; ++a) by[a][k] = vectors[a][order[k]] * scale;
  }
  multiply(rows, by);
  return true;
}

/// Signs without a pattern, the same ones each time.
void put_signs(Wide& rows) {
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < rows.size; ++i) {
    for (unsigned k = 0; k < kWide; ++k) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      rows.row(k)[Wide::place_of_column(i)] = state >> 63 == 0 ? 1.0F : -1.0F;
    }
  }
}

/// `place_of`: where number i of a row stands.
template <class PlaceOf>
std::vector<std::int8_t> rounded(const Wide& rows, const std::array<double, kWide>& scales,
                                 const std::array<unsigned, kWide>& order, unsigned rank, const PlaceOf& place_of) {
  std::vector<std::int8_t> out(rows.size * rank);
  for (unsigned k = 0; k < rank; ++k) {
    const float* row = rows.row(order[k]);
    for (std::size_t i = 0; i < rows.size; ++i) {
      const double value = std::floor(double{row[place_of(i)]} * scales[order[k]] + 0.5);
      out[i * rank + k] = static_cast<std::int8_t>(std::clamp<double>(value, -kMostFactor, kMostFactor));
    }
  }
  return out;
}

/// Singular vectors of U V^T in steps that are all equal, so that the lesser ones take fewer bits. REQUIRES: rows of V
/// are orthonormal.
Factors factors_of(Wide& u, Wide& v) {
  Square products = products_of_rows(u);
  if (!are_numbers(products)) return {};  // of words that are none
  const Square by = eigenvectors(products);
  if (!are_numbers(products)) return {};
  multiply(u, by);
  multiply(v, by);
  const std::array<unsigned, kWide> order = order_of(products);
  Factors factors;
  double sum = 0;  // of singular values
  for (unsigned k = 0; k < kWide; ++k) sum += std::sqrt(std::max(0.0, products[order[k]][order[k]]));
  if (!(sum > 0) || !std::isfinite(sum)) return factors;
  // With the roots of the singular values in both, the mean square of a factor is sum / (rank * rows), and of columns.
  const auto rows = static_cast<double>(u.size), columns = static_cast<double>(v.size);
  const double row_step = std::sqrt(sum / (kWide * rows)) / kSteps;
  const double column_step = std::sqrt(sum / (kWide * columns)) / kSteps;
  const double shift = -std::nearbyint(std::log2(row_step * column_step));
  if (!(shift >= 0 && shift <= kMostShift)) return factors;
  factors.rank = kWide;
  factors.shift = static_cast<int>(shift);
  const double by_both = std::ldexp(row_step * column_step, factors.shift);  // near 1
  std::array<double, kWide> row_scales = {}, column_scales = {};
  for (unsigned k = 0; k < kWide; ++k) {
    const double root = std::sqrt(std::sqrt(std::max(0.0, products[k][k])));
    if (root == 0) continue;
    row_scales[k] = by_both / (root * row_step);  // U has the singular values in it
    column_scales[k] = root / column_step;
  }
  factors.rows = rounded(u, row_scales, order, kWide, [](std::size_t i) { return i; });
  factors.columns = rounded(v, column_scales, order, kWide, Wide::place_of_column);
  return factors;
}

constexpr std::size_t kLeastPairs = 128;  ///< of rows, that are enough
constexpr int kIterations = 2;
constexpr std::size_t kNear = 256ULL << 10;  ///< bytes of rows that are used right after they were brought

}  // namespace

bool can_have_factors(std::uint64_t bytes, std::uint64_t columns) {
  return columns >= kLeastSide && bytes / 2 / columns >= kLeastSide;
}

/// The numbers of V.
struct Directions {
  std::size_t columns;
  std::vector<float> numbers;
};

std::shared_ptr<const Directions> find_directions(Bytes before, Bytes after, std::uint64_t columns) {
  if (!can_have_factors(before.size(), columns)) return nullptr;
  const std::size_t pairs = before.size() / 2 / columns / 2;
  Wide v(columns), next(columns);
  put_signs(v);
  for (int i = 0; i < kIterations; ++i) {
    std::ranges::fill(next.numbers, 0.0F);
    rank_kernels().iterate({before.data(), after.data(), columns}, pairs, std::max<std::size_t>(1, pairs / kLeastPairs),
                           v, next);
    if (!orthonormalise(next)) return nullptr;
    std::swap(v, next);
  }
  return std::make_shared<const Directions>(Directions{columns, std::move(v.numbers)});
}

Factors find_factors(Bytes before, Bytes after, std::uint64_t columns, const Directions* along, const Bring& bring) {
  if (along == nullptr || along->columns != columns || !can_have_factors(before.size(), columns)) return {};
  const std::size_t rows = before.size() / 2 / columns;
  Wide v(columns), u(rows);
  v.numbers = along->numbers;
  const std::size_t whole = rows / kRowsAtOnce * kRowsAtOnce;
  const std::size_t some = std::max<std::size_t>(1, kNear / 2 / columns / kRowsAtOnce) * kRowsAtOnce;
  for (std::size_t row = 0; row < whole; row += some) {
    const std::size_t end = std::min(whole, row + some);
    if (bring) bring(2 * end * columns);
    rank_kernels().project({before.data(), after.data(), columns}, row, end, v, u);
  }
  return factors_of(u, v);
}

}  // namespace ckpt::detail
