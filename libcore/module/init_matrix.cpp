// Initial values that are not only random: diagonals, Dirac's delta, right angles, zeros.
#include <cmath>
#include <vector>

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/module/init.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core::init {
namespace {

void require(bool ok, const char* message) {
  if (!ok) throw Error(ErrorCode::value, message);
}

using Column = std::vector<double>;

double product(const Column& a, const Column& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Columns at right angles, each on the side of the one it was made from: the Q of a QR decomposition whose R has a
/// positive diagonal. Twice through, so that rounding leaves nothing behind.
void orthonormalise(std::vector<Column>& columns) {
  for (std::size_t k = 0; k < columns.size(); ++k) {
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < k; ++j) {
        const double along = product(columns[k], columns[j]);
        for (std::size_t i = 0; i < columns[k].size(); ++i) columns[k][i] -= along * columns[j][i];
      }
    }
    const double length = std::sqrt(product(columns[k], columns[k]));
    for (double& value : columns[k]) value /= length;
  }
}

}  // namespace

const Tensor& trunc_normal_(const Tensor& tensor, const TruncatedNormal& shape) {
  return core::trunc_normal_(tensor, shape);
}

const Tensor& eye_(const Tensor& tensor) {
  require(tensor.dim() == 2, "Only tensors with 2 dimensions are supported");
  const NoGradGuard no_history;
  tensor.zero_();
  tensor.diagonal().fill_(1);
  return tensor;
}

const Tensor& dirac_(const Tensor& tensor, std::int64_t groups) {
  require(tensor.dim() >= 3 && tensor.dim() <= 5, "Only tensors with 3, 4, or 5 dimensions are supported");
  require(tensor.size(0) % groups == 0, "dim 0 must be divisible by groups");
  const NoGradGuard no_history;
  tensor.zero_();
  const std::int64_t share = tensor.size(0) / groups, count = std::min(share, tensor.size(1));
  for (std::int64_t g = 0; g < groups; ++g) {
    for (std::int64_t d = 0; d < count; ++d) {
      Tensor at = tensor.select(0, g * share + d).select(0, d);
      while (at.dim() > 0) at = at.select(0, at.size(0) / 2);
      at.fill_(1);
    }
  }
  return tensor;
}

const Tensor& orthogonal_(const Tensor& tensor, double gain) {
  require(tensor.dim() >= 2, "Only tensors with 2 or more dimensions are supported");
  if (tensor.numel() == 0) return tensor;
  const NoGradGuard no_history;
  const std::int64_t rows = tensor.size(0), width = tensor.numel() / rows;
  const Tensor flat = init::normal_(empty({rows, width}, {.dtype = tensor.dtype(), .device = tensor.device()}));
  const Tensor lying = rows < width ? flat : flat.t();  // one row for each column of the matrix that is decomposed
  const std::vector<double> values = lying.contiguous().to_vector<double>();
  std::vector<Column> columns;
  const auto length = static_cast<std::ptrdiff_t>(lying.size(1));
  for (std::ptrdiff_t i = 0; i < lying.size(0); ++i) {
    columns.emplace_back(values.begin() + i * length, values.begin() + (i + 1) * length);
  }
  orthonormalise(columns);
  Column all;
  for (const Column& column : columns) all.insert(all.end(), column.begin(), column.end());
  const Tensor q =
      from_values(std::span<const double>(all), lying.sizes(), {.device = tensor.device()}).to(tensor.dtype());
  tensor.copy_((rows < width ? q : q.t()).contiguous().view(tensor.sizes()));
  return tensor.mul_(gain);
}

const Tensor& sparse_(const Tensor& tensor, double sparsity, double std) {
  require(tensor.dim() == 2, "Only tensors with 2 dimensions are supported");
  const NoGradGuard no_history;
  init::normal_(tensor, 0, std);
  const auto zeros = static_cast<std::int64_t>(std::ceil(sparsity * static_cast<double>(tensor.size(0))));
  for (std::int64_t column = 0; column < tensor.size(1); ++column) {
    const std::vector<std::int64_t> rows = randperm(tensor.size(0)).to_vector<std::int64_t>();
    for (std::int64_t i = 0; i < zeros; ++i) {
      tensor.select(0, rows[static_cast<std::size_t>(i)]).select(0, column).fill_(0);
    }
  }
  return tensor;
}

}  // namespace core::init
