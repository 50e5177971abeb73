#pragma once
// What the matrices of a model are like: norms, ranks, condition. The weight of a convolution counts as a matrix of its
// outputs by the rest. Small matrices are decomposed, of large ones a sketch sees the largest singular values, within a
// time and with bounded memory; what is left out is named.
// Thread safety: pure. Use: ckpt::SpectralReport report = ckpt::spectral_stats(entries, {.time_limit = 60});

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/report.h"

namespace ckpt {

struct SpectralOptions {
  double time_limit = 60;                 ///< seconds for all; 0: none. A matrix that is decomposed is finished
  std::uint64_t exact = 512;              ///< the largest smaller side of a matrix that is decomposed
  std::uint64_t sketch = 128;             ///< directions of a sketch (spectral.h)
  std::uint64_t seed = 0;                 ///< of the sketches
  std::optional<double> tolerance = {};   ///< singular values below this part of the largest count as 0 for the
                                          ///< rank; as numpy.linalg.matrix_rank has it, max(rows, columns) * eps
  std::uint64_t max_memory = 1ULL << 30;  ///< bytes, of all threads together
  unsigned threads = 0;
  Progress progress = {};  ///< numbers, of all matrices
};

struct MatrixStats {
  std::string name;
  EntryPtr entry;
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t sketched = 0;  ///< directions of the sketch; 0: exact
  double frobenius = 0;
  double spectral = 0;     ///< largest singular value
  double stable_rank = 0;  ///< (frobenius / spectral) squared; 0 for a matrix of zeros
  /// exp of the entropy of the singular values (Roy and Vetterli, "The effective rank", 2007); exact matrices alone.
  std::optional<double> effective_rank = {};
  std::uint64_t rank = 0;            ///< by the tolerance; of a sketch at least this
  double condition = 0;              ///< infinite for a singular matrix; of a sketch at least this
  std::vector<double> largest = {};  ///< singular values, at most 16
};

struct SpectralReport {
  struct LeftOut {
    std::string name;
    std::string why;  ///< "the time was over", "has values that are NaN, infinite ..."
  };
  std::vector<MatrixStats> matrices;  ///< in the order they were given; of tied names each
  std::vector<LeftOut> left_out;
  std::uint64_t others = 0;  ///< tensors that are no matrices of floats
  double seconds = 0;
};

/// Errors: those of reading, with the key as context.
SpectralReport spectral_stats(const std::vector<NamedEntry>& entries, const SpectralOptions& options = {});

}  // namespace ckpt
