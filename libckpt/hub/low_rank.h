#pragma once
// low_rank_of: the matrix of low rank that is nearest to another, by a sketch from random signs that are always the
// same (analyze/spectral.h). Internal to libckpt/hub. Thread safety: pure; runs threads.
// Use: LowRank found = low_rank_of(difference, rows, columns, 16, 0);

#include <cstdint>
#include <span>
#include <vector>

namespace ckpt::detail {

/// A matrix as the product of two: [rows, rank] and [rank, columns], which share its singular values evenly.
struct LowRank {
  std::vector<float> left;
  std::vector<float> right;
  double norm = 0;   ///< of the matrix (the root of the sum of its squares)
  double error = 0;  ///< norm of the matrix less the product, as a share of `norm`; 0 for a matrix of zeros
};

/// REQUIRES: rank > 0, the values are finite. Where the matrix has fewer rows or columns than `rank`, the product holds
/// it whole, and what is left of the factors is 0.
LowRank low_rank_of(std::span<const float> matrix, std::size_t rows, std::size_t columns, std::size_t rank,
                    unsigned threads);

}  // namespace ckpt::detail
