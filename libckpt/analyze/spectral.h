#pragma once
// Singular values of a matrix that is read by rows: all of them for small matrices, the largest ones by a random sketch
// for matrices that are never held as a whole. Double precision throughout.
// Thread safety: pure; what `read` does is the caller's. Errors: what `read` throws; Error(value) for values that are
// not finite, or too large or too small to be squared. Use: std::vector<double> s = ckpt::singular_values({rows,
// columns, read}); double spectral_norm = s[0];

#include <cstdint>
#include <functional>
#include <vector>

namespace ckpt {

/// A matrix as rows of numbers.
struct MatrixRows {
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  /// Writes `count` rows from `first` on, one behind the other.
  std::function<void(std::uint64_t first, std::uint64_t count, double* out)> read;
};

/// All min(rows, columns) of them, the largest first, as numpy.linalg.svd gives them. Holds the matrix twice; its time
/// grows with rows * columns * min(rows, columns). Source: Golub and Van Loan, "Matrix Computations", 5.4 and 8.6 (QR,
/// bidiagonalisation, then QR steps of a symmetric tridiagonal matrix, by Eigen).
std::vector<double> singular_values(const MatrixRows& matrix);

struct SketchOptions {
  std::uint64_t size = 128;  ///< how many directions are looked at; at most the smaller side is
  std::uint64_t block =
      16;  ///< directions of one pass over the matrix, at most 16, and size / 8: the more passes, the better
  std::uint64_t seed = 0;  ///< the same seed gives the same numbers on the same kind of processor
  bool vectors = false;    ///< also singular vectors, for one pass more
  /// Asked between pieces; true ends the work with no values.
  std::function<bool()> stopped = {};
};

/// The part of a singular value decomposition that a sketch sees.
struct SketchedSvd {
  /// The largest first. Each is at most the true value of its place; the first ones are close to it (in tests within
  /// 1e-3 where all are of one size, and to all digits where they fall off).
  std::vector<double> values;
  double frobenius = 0;       ///< of the whole matrix, exact
  std::vector<double> left;   ///< rows x values.size(), by rows
  std::vector<double> right;  ///< columns x values.size(), by rows
};

/// A block Krylov space of the matrix from random signs. Holds columns * size numbers and a few rows of the matrix.
/// Empty values when it was stopped. Source: Musco and Musco, "Randomized block Krylov methods for stronger and faster
/// approximate singular value decomposition", 2015.
SketchedSvd randomized_svd(const MatrixRows& matrix, const SketchOptions& options = {});

}  // namespace ckpt
