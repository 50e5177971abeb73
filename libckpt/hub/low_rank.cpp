#include "libckpt/hub/low_rank.h"

#include <algorithm>
#include <cmath>

#include "libckpt/analyze/spectral.h"
#include "libckpt/io/parallel_io.h"

namespace ckpt::detail {
namespace {

constexpr std::size_t kMoreDirections = 32;  ///< beside twice the rank: the last ones of a sketch are far from true
constexpr std::size_t kStrip = 64;           ///< rows that a thread takes at a time
constexpr double kNothing = 1e-7;            ///< of the norm; factors are rounded to about this

/// Norm of the matrix less the product, as it is rounded.
double distance(std::span<const float> matrix, std::size_t columns, const LowRank& product, std::size_t rank,
                unsigned threads) {
  const std::size_t rows = matrix.size() / columns;
  std::vector<double> squares(rows);
  auto add_row = [&](std::size_t i) {
    std::vector<float> row(matrix.begin() + static_cast<std::ptrdiff_t>(i * columns),
                           matrix.begin() + static_cast<std::ptrdiff_t>((i + 1) * columns));
    for (std::size_t k = 0; k < rank; ++k) {
      const float factor = product.left[i * rank + k];
      for (std::size_t j = 0; j < columns; ++j) row[j] -= factor * product.right[k * columns + j];
    }
    for (float gap : row) squares[i] += static_cast<double>(gap) * static_cast<double>(gap);
  };
  parallel_for((rows + kStrip - 1) / kStrip, threads, [&](std::size_t strip) {
    for (std::size_t i = strip * kStrip; i < std::min(rows, (strip + 1) * kStrip); ++i) add_row(i);
  });
  double sum = 0;
  for (double square : squares) sum += square;
  return std::sqrt(sum);
}

/// Every `stride`th number from `from` on, times `factor`.
void scale_into(std::vector<float>& out, std::size_t out_from, std::size_t out_stride, const std::vector<double>& in,
                std::size_t from, std::size_t stride, double factor) {
  for (std::size_t i = 0; i < in.size() / stride; ++i) {
    out[out_from + i * out_stride] = static_cast<float>(in[from + i * stride] * factor);
  }
}

}  // namespace

LowRank low_rank_of(std::span<const float> matrix, std::size_t rows, std::size_t columns, std::size_t rank,
                    unsigned threads) {
  const MatrixRows as_rows{rows, columns, [&](std::uint64_t first, std::uint64_t count, double* out) {
                             const auto part = matrix.subspan(first * columns, count * columns);
                             std::copy(part.begin(), part.end(), out);
                           }};
  const SketchedSvd svd = randomized_svd(as_rows, {.size = 2 * rank + kMoreDirections, .vectors = true});
  LowRank out{.left = std::vector<float>(rows * rank), .right = std::vector<float>(rank * columns)};
  out.norm = svd.frobenius;
  if (out.norm == 0) return out;
  const std::size_t found = svd.values.size();
  for (std::size_t k = 0; k < std::min(rank, found) && svd.values[k] > kNothing * out.norm; ++k) {
    const double half = std::sqrt(svd.values[k]);
    scale_into(out.left, k, rank, svd.left, k, found, half);
    scale_into(out.right, k * columns, 1, svd.right, k, found, half);
  }
  out.error = distance(matrix, columns, out, rank, threads) / out.norm;
  return out;
}

}  // namespace ckpt::detail
