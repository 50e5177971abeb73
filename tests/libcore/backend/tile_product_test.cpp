// Products of bf16 by tiles, beside sums in double: every way in which matrices can lie, sizes that end within a tile,
// and one that does not fit into a cache.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "libcore/backend/cpu/gemm/tile_product.h"
#include "libcore/backend/cpu/isa.h"
#include "libcore/backend/op_params.h"
#include "libcore/backend/threads.h"

namespace {

using core::GemmParams;
using Words = std::vector<std::uint16_t>;

struct Case {
  std::int64_t m, n, k;
  bool transpose_a, transpose_b;
  double alpha = 1, beta = 0;
  bool has_bias = false;
  std::int64_t batch = 1;
  std::optional<bool> of_few_rows = {};  // by its own kernel, which takes it or not
};

/// Whole numbers from -4 to 4, which bf16 has, in an order that repeats late.
std::uint16_t number(std::int64_t i) {
  const auto value = static_cast<float>((i * i + 7 * i) % 97 % 9 - 4);
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}
Words numbers(std::int64_t count, std::int64_t first) {
  Words words(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) words[static_cast<std::size_t>(i)] = number(first + i);
  return words;
}
double value(const Words& words, std::int64_t i) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(words[static_cast<std::size_t>(i)]) << 16);
}

/// The arrays of a case. Rows are longer than the matrices, and what is behind their ends is infinite.
struct Arrays {
  static constexpr std::int64_t kGap = 3;
  std::int64_t a_rows, a_columns, b_rows, b_columns;
  Words a, b, c, bias;

  explicit Arrays(const Case& x)
      : a_rows(x.transpose_a ? x.k : x.m),
        a_columns(x.transpose_a ? x.m : x.k),
        b_rows(x.transpose_b ? x.n : x.k),
        b_columns(x.transpose_b ? x.k : x.n),
        a(rows(x.batch * a_rows, a_columns, 1)),
        b(rows(x.batch * b_rows, b_columns, 5)),
        c(rows(x.batch * x.m, x.n, 11)),
        bias(numbers(x.n, 17)) {}

  static Words rows(std::int64_t count, std::int64_t columns, std::int64_t first) {
    Words words = numbers(count * (columns + kGap), first);
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t i = 0; i < kGap; ++i)
        words[static_cast<std::size_t>(row * (columns + kGap) + columns + i)] = 0x7f80;
    }
    return words;
  }
};

GemmParams params_of(const Case& x, Arrays& arrays) {
  GemmParams p{};
  p.transpose_a = x.transpose_a, p.transpose_b = x.transpose_b;
  p.m = x.m, p.n = x.n, p.k = x.k;
  p.lda = arrays.a_columns + Arrays::kGap, p.ldb = arrays.b_columns + Arrays::kGap, p.ldc = x.n + Arrays::kGap;
  p.a = arrays.a.data(), p.b = arrays.b.data(), p.c = arrays.c.data();
  p.alpha = x.alpha, p.beta = x.beta;
  p.batch = x.batch;
  p.batch_stride_a = arrays.a_rows * p.lda, p.batch_stride_b = arrays.b_rows * p.ldb, p.batch_stride_c = x.m * p.ldc;
  p.bias = x.has_bias ? arrays.bias.data() : nullptr;
  return p;
}

double expected_at(const Case& x, const Arrays& before, const GemmParams& p, std::int64_t item, std::int64_t row,
                   std::int64_t column) {
  double sum = 0;
  for (std::int64_t i = 0; i < x.k; ++i) {
    const std::int64_t a = x.transpose_a ? i * p.lda + row : row * p.lda + i;
    const std::int64_t b = x.transpose_b ? column * p.ldb + i : i * p.ldb + column;
    sum += value(before.a, item * p.batch_stride_a + a) * value(before.b, item * p.batch_stride_b + b);
  }
  sum *= x.alpha;
  if (x.has_bias) sum += value(before.bias, column);
  return x.beta == 0 ? sum : sum + x.beta * value(before.c, item * p.batch_stride_c + row * p.ldc + column);
}

/// Every `step`th number, rounded once, and what is behind the rows as it was.
void check(const Case& x, std::int64_t step = 1) {
  if (!core::cpu::multiplies_tiles()) GTEST_SKIP() << "this processor has no tiles, or CORE_ISA keeps them away";
#if defined(__x86_64__)
  SCOPED_TRACE(testing::Message() << x.m << " x " << x.n << " x " << x.k << (x.transpose_a ? " T" : " N")
                                  << (x.transpose_b ? "T" : "N"));
  Arrays arrays(x);
  const Arrays before = arrays;
  const GemmParams p = params_of(x, arrays);
  if (x.of_few_rows) {
    ASSERT_EQ(core::cpu::avx512::tile_product_of_few_rows(p), *x.of_few_rows);
    if (!*x.of_few_rows) return;
  } else {
    core::cpu::avx512::tile_product(p);
  }
  for (std::int64_t i = 0; i < x.batch * x.m * x.n; i += step) {
    const std::int64_t item = i / (x.m * x.n), row = i / x.n % x.m, column = i % x.n;
    const double want = expected_at(x, before, p, item, row, column);
    const double have = value(arrays.c, item * p.batch_stride_c + row * p.ldc + column);
    ASSERT_NEAR(have, want, std::abs(want) / 256) << "item " << item << ", row " << row << ", column " << column;
  }
  for (std::int64_t row = 0; row < x.batch * x.m; ++row) {
    for (std::int64_t i = x.n; i < p.ldc; ++i) ASSERT_EQ(value(arrays.c, row * p.ldc + i), INFINITY) << "row " << row;
  }
#endif
}

void check_all_orders(Case x, std::int64_t step = 1) {
  for (int order = 0; order < 4; ++order) {
    x.transpose_a = (order & 1) != 0, x.transpose_b = (order & 2) != 0;
    check(x, step);
  }
}

TEST(TileProduct, EndsWithinTiles) {
  for (const std::int64_t m : {1, 16, 17, 33}) {
    for (const std::int64_t n : {1, 15, 32, 50}) {
      for (const std::int64_t k : {1, 2, 31, 33, 300}) check_all_orders({m, n, k, false, false});
    }
  }
}

TEST(TileProduct, ScalesAndAdds) {
  check_all_orders({40, 72, 70, false, false, 0.5, 2});
  check_all_orders({72, 40, 70, false, false, 1, 0, true});
  check_all_orders({20, 36, 40, false, false, -1, 1, false, 3});
}

/// Few rows and a small weight with its numbers of k side by side are read from where they lie.
TEST(TileProduct, FewRowsAreReadInPlace) {
  for (const bool has_bias : {false, true}) {
    for (const std::int64_t n : {1, 15, 32, 50}) {
      for (const std::int64_t k : {1, 31, 33, 300}) check({2, n, k, false, true, 1, 0, has_bias, 1, true});
      for (const std::int64_t m : {1, 3, 16, 17, 32}) check({m, n, 96, false, true, 1, 0, has_bias, 1, true});
    }
  }
  check({8, 64, 33, false, true, 1, 0, false, 1, false});
  check({33, 64, 64, false, true, 1, 0, false, 1, false});
  check({8, 1024, 64, false, true, 1, 0, false, 1, false});
  check({8, 64, 64, false, true, 0.5, 0, false, 1, false});
  check({8, 64, 64, false, false, 1, 0, false, 1, false});
  check({8, 64, 64, false, true, 1, 0, false, 2, false});
}

TEST(TileProduct, LargerThanACache) {
  check_all_orders({840, 810, 660, false, false}, 101);
  check_all_orders({33, 70, 40000, false, false, 0.5, 1}, 7);
}

TEST(TileProduct, IsTheSameOnSeveralThreads) {
  const int before = core::num_threads();
  core::set_num_threads(2);
  check_all_orders({300, 260, 200, false, false}, 13);
  check_all_orders({64, 64, 64, false, false, 1, 0, false, 40}, 13);
  core::set_num_threads(before);
}

}  // namespace
