#include "libckpt/analyze/spectral.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "libckpt/analyze/spectral_loops.h"
#include "libcore/base/error.h"

namespace ckpt {
namespace {

using Matrix = Eigen::MatrixXd;
using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using detail::kThin;

constexpr std::uint64_t kPieceNumbers = 1 << 20;  // numbers read at once
constexpr double kLeastSquares = 1e-280;          // below it sums of squares lose their digits

Eigen::Index index(std::uint64_t count) {
  return static_cast<Eigen::Index>(count);
}

void require_finite(double number) {
  if (std::isfinite(number)) return;
  throw core::Error(core::ErrorCode::value, "has values that are NaN, infinite or too large to be squared");
}

void require_squares(double squares, double largest) {
  require_finite(squares);
  if (largest == 0 || squares >= kLeastSquares) return;
  throw core::Error(core::ErrorCode::value, "has only values that are too small to be squared");
}

/// Its rows in pieces of about a million numbers.
template <class Use>
bool for_each_piece(const MatrixRows& matrix, std::vector<double>& piece, const Use& use,
                    const std::function<bool()>& stopped) {
  const std::uint64_t step = std::max<std::uint64_t>(1, kPieceNumbers / std::max<std::uint64_t>(1, matrix.columns));
  for (std::uint64_t first = 0; first < matrix.rows; first += step) {
    if (stopped && stopped()) return false;
    const std::uint64_t count = std::min(step, matrix.rows - first);
    piece.resize(count * matrix.columns);
    matrix.read(first, count, piece.data());
    use(first, count, piece.data());
  }
  return true;
}

/// Random signs, the same everywhere (splitmix64).
class Signs {
 public:
  explicit Signs(std::uint64_t seed) : state_(seed) {}
  void fill(Eigen::Ref<Matrix> out) {
    for (Eigen::Index column = 0; column < out.cols(); ++column) {
      for (Eigen::Index row = 0; row < out.rows(); ++row) out(row, column) = next();
    }
  }

 private:
  double next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t bits = state_;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    return ((bits ^ (bits >> 31)) & 1U) != 0 ? 1 : -1;
  }
  std::uint64_t state_;
};

/// Singular values, the largest first, of a matrix that is not wider than high: it is made bidiagonal, and the values
/// of that are the positive eigenvalues of a matrix with its numbers beside a diagonal of zeros. (Eigen's class for it
/// takes most of a minute to compile.) Source: Golub and Kahan, "Calculating the singular values and pseudo-inverse of
/// a matrix", 1965.
Eigen::VectorXd values_of(const Matrix& tall) {
  const Eigen::internal::UpperBidiagonalization<Matrix> bidiagonal(tall);
  const auto& bands =
      bidiagonal.bidiagonal().coeffs();  // the one above the diagonal, which begins in column 1; the diagonal
  const Eigen::Index count = tall.cols();
  Eigen::VectorXd beside(2 * count - 1);
  for (Eigen::Index i = 0; i < count; ++i) {
    beside[2 * i] = bands(1, i);
    if (i + 1 < count) beside[2 * i + 1] = bands(0, i + 1);
  }
  Eigen::SelfAdjointEigenSolver<Matrix> solver;
  solver.computeFromTridiagonal(Eigen::VectorXd::Zero(2 * count), beside, Eigen::EigenvaluesOnly);
  return solver.eigenvalues().tail(count).reverse().cwiseMax(0.0);
}

/// The columns of `block` without what lies in `known`, orthonormal. A direction that is already there gives its place
/// to a random one: of an identity matrix the images are the directions themselves.
Matrix orthonormal(const Matrix& known, Matrix block, Signs& signs) {
  const double size = block.norm();
  auto take_known = [&](auto part) {
    for (int twice = 0; twice < 2; ++twice) part -= known * (known.transpose() * part);
  };
  take_known(block.leftCols(block.cols()));
  for (Eigen::Index i = 0; i < block.cols(); ++i) {
    auto column = block.col(i);
    auto take_all = [&] {
      for (int twice = 0; twice < 2; ++twice) {
        column -= block.leftCols(i) * (block.leftCols(i).transpose() * column);
        column -= known * (known.transpose() * column);
      }
      return column.norm();
    };
    double length = take_all();
    if (length <= size * 1e-13) {
      const double least = 1e-6 * std::sqrt(static_cast<double>(column.size()));
      do {  // signs of a few rows are often there, too
        signs.fill(column);
        length = take_all();
      } while (length < least);
    }
    column /= length;
  }
  return block;
}

/// Of a matrix with no more rows than a sketch has directions. Directions of a sketch are random ones of all columns,
/// and would miss a part of what the rows span.
SketchedSvd decomposed(const MatrixRows& matrix, const SketchOptions& options) {
  SketchedSvd out;
  if (options.stopped && options.stopped()) return out;
  Rows all(index(matrix.rows), index(matrix.columns));
  matrix.read(0, matrix.rows, all.data());
  const double squares = all.squaredNorm();
  require_squares(squares, all.cwiseAbs().maxCoeff());
  out.frobenius = std::sqrt(squares);
  const Eigen::HouseholderQR<Matrix> qr(all.transpose());
  const Matrix square = qr.matrixQR().topRows(all.rows()).triangularView<Eigen::Upper>();
  if (!options.vectors) {
    const Eigen::VectorXd values = values_of(square);
    out.values.assign(values.begin(), values.end());
    return out;
  }
  const Eigen::JacobiSVD<Matrix, Eigen::NoQRPreconditioner> svd(square, Eigen::ComputeFullU | Eigen::ComputeFullV);
  out.values.assign(svd.singularValues().begin(), svd.singularValues().end());
  const Rows left = svd.matrixV();
  Matrix wide = Matrix::Zero(all.cols(), all.rows());
  wide.topRows(all.rows()) = svd.matrixU();
  wide.applyOnTheLeft(qr.householderQ());
  const Rows right = wide;
  out.left.assign(left.data(), left.data() + left.size());
  out.right.assign(right.data(), right.data() + right.size());
  return out;
}

class Sketch {
 public:
  Sketch(const MatrixRows& matrix, const SketchOptions& options)
      : matrix_(matrix),
        options_(options),
        size_(std::min({options.size, matrix.rows, matrix.columns})),
        block_(std::min({std::max<std::uint64_t>(1, options.block), std::uint64_t{kThin}, (size_ + 7) / 8})) {}

  SketchedSvd run() {
    SketchedSvd out;
    space_.resize(index(matrix_.columns), 0);
    Signs signs(options_.seed);
    Matrix block(index(matrix_.columns), index(block_));
    signs.fill(block);
    while (static_cast<std::uint64_t>(space_.cols()) < size_) {
      const std::uint64_t wanted = std::min(block_, size_ - static_cast<std::uint64_t>(space_.cols()));
      block = orthonormal(space_, block.leftCols(index(wanted)), signs);
      if (!add(block)) return out;
      block = image_;
    }
    solve(out);
    if (options_.vectors && !add_vectors(out)) out.values.clear();
    return out;
  }

 private:
  /// image_ = transposed(A) A block; the space and its projection grow.
  bool add(const Matrix& block) {
    Rows thin = Rows::Zero(block.rows(), kThin);
    thin.leftCols(block.cols()) = block;
    Rows image = Rows::Zero(block.rows(), kThin);
    std::vector<double> products;
    double squares = 0, largest = 0;
    const bool whole = for_each_piece(
        matrix_, piece_,
        [&](std::uint64_t, std::uint64_t count, const double* rows) {
          products.resize(count * kThin);
          detail::multiply_rows(rows, count, matrix_.columns, thin.data(), products.data());
          detail::add_transposed(rows, count, matrix_.columns, products.data(), image.data());
          if (space_.cols() > 0) return;
          const Eigen::Map<const Eigen::VectorXd> piece(rows, index(count * matrix_.columns));
          squares += piece.squaredNorm();
          largest = std::max(largest, piece.cwiseAbs().maxCoeff());
        },
        options_.stopped);
    if (!whole) return false;
    if (space_.cols() == 0) {
      require_squares(squares, largest);
      squares_ = squares;
    }
    image_ = image.leftCols(block.cols());
    const Eigen::Index before = space_.cols();
    space_.conservativeResize(Eigen::NoChange, before + block.cols());
    space_.rightCols(block.cols()) = block;
    projected_.conservativeResize(space_.cols(), space_.cols());
    const Matrix column = space_.transpose() * image_;
    projected_.rightCols(block.cols()) = column;
    projected_.bottomRows(block.cols()) = column.transpose();
    return true;
  }

  void solve(SketchedSvd& out) {
    out.frobenius = std::sqrt(squares_);
    const Eigen::SelfAdjointEigenSolver<Matrix> solver(projected_);
    const Eigen::VectorXd& squares = solver.eigenvalues();
    for (Eigen::Index i = squares.size() - 1; i >= 0; --i) out.values.push_back(std::sqrt(std::max(0.0, squares[i])));
    if (options_.vectors) right_ = space_ * solver.eigenvectors().rowwise().reverse();
  }

  /// One pass more: A times the right vectors, divided by the values.
  bool add_vectors(SketchedSvd& out) {
    const std::size_t count = out.values.size();
    const Rows right = right_;
    out.right.assign(right.data(), right.data() + right.size());
    out.left.resize(matrix_.rows * count);
    return for_each_piece(
        matrix_, piece_,
        [&](std::uint64_t first, std::uint64_t rows, const double* data) {
          const Eigen::Map<const Rows> part(data, index(rows), index(matrix_.columns));
          Eigen::Map<Rows> into(out.left.data() + first * count, index(rows), index(count));
          into.noalias() = part * right;
          for (std::size_t i = 0; i < count; ++i) {
            if (out.values[i] > 0) into.col(index(i)) /= out.values[i];
          }
        },
        options_.stopped);
  }

  const MatrixRows& matrix_;
  const SketchOptions& options_;
  std::uint64_t size_;
  std::uint64_t block_;
  Matrix space_;      ///< orthonormal columns
  Matrix projected_;  ///< transposed(space) transposed(A) A space
  Matrix image_;
  Matrix right_;
  std::vector<double> piece_;
  double squares_ = 0;
};

}  // namespace

std::vector<double> singular_values(const MatrixRows& matrix) {
  if (matrix.rows == 0 || matrix.columns == 0) return {};
  Rows all(index(matrix.rows), index(matrix.columns));
  matrix.read(0, matrix.rows, all.data());
  const double largest = all.cwiseAbs().maxCoeff<Eigen::PropagateNaN>();
  require_finite(largest);
  const auto smaller = static_cast<std::size_t>(std::min(matrix.rows, matrix.columns));
  if (largest == 0) return std::vector<double>(smaller, 0.0);
  Matrix tall = all.rows() < all.cols() ? Matrix(all.transpose()) : Matrix(all);
  all.resize(0, 0);
  tall /= largest;
  require_finite(tall.norm() * largest);
  if (tall.rows() > tall.cols() + tall.cols() / 4) {
    const Eigen::HouseholderQR<Matrix> qr(tall);
    tall = Matrix(qr.matrixQR().topRows(tall.cols()).triangularView<Eigen::Upper>());
  }
  const Eigen::VectorXd values = values_of(tall) * largest;
  return {values.begin(), values.end()};
}

SketchedSvd randomized_svd(const MatrixRows& matrix, const SketchOptions& options) {
  if (matrix.rows == 0 || matrix.columns == 0) return {};
  const bool is_wide = matrix.rows < matrix.columns;
  if (is_wide && matrix.rows <= options.size) return decomposed(matrix, options);
  return Sketch(matrix, options).run();
}

}  // namespace ckpt
