#pragma once
// Looking up rows with all of PyTorch's options, and bags of rows, as torch.nn.functional.
// Thread safety: pure functions, but max_norm rescales rows of `weight` in place.
// Use: core::Tensor y = core::embedding_bag(indices, table, {.mode = core::BagMode::sum});

#include <cstdint>
#include <optional>

#include "libcore/tensor/tensor.h"

namespace core {

/// Rows of `weight` (count, width) at `indices` (any shape); the gradient of row `padding_idx` is 0.
Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_idx = {});

struct EmbeddingArguments {
  std::optional<std::int64_t> padding_idx = {};
  std::optional<double> max_norm = {};  ///< rows that are longer are rescaled to it before they are read
  double norm_type = 2;
  bool scale_grad_by_freq = false;  ///< gradients are divided by how often the row is asked for
  bool sparse = false;              ///< the gradient is a sparse tensor (sparse.h) of the rows that were asked for
};

Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingArguments& arguments);
/// Rows at `indices` that are longer than max_norm are rescaled to it, in place.
const Tensor& embedding_renorm_(const Tensor& weight, const Tensor& indices, double max_norm, double norm_type = 2);
enum class BagMode { sum, mean, max };

struct EmbeddingBagArguments {
  Tensor offsets = {};  ///< where each bag begins, for 1-D indices; in 2-D ones each row is a bag
  std::optional<double> max_norm = {};
  double norm_type = 2;
  bool scale_grad_by_freq = false;  ///< gradients are divided by how often the row is asked for
  BagMode mode = BagMode::mean;
  bool sparse = false;             ///< the gradient is a sparse tensor of the rows that were asked for
  Tensor per_sample_weights = {};  ///< of each index; for sums
  bool include_last_offset = false;
  std::optional<std::int64_t> padding_idx = {};
};

/// (bags, width). Errors: PyTorch's texts for missing or superfluous offsets.
Tensor embedding_bag(const Tensor& indices, const Tensor& weight, const EmbeddingBagArguments& arguments = {});

/// A 1 at each index along a new last dimension; int64. classes: -1 takes the largest index + 1.
/// Errors(runtime): "Class values must be smaller than num_classes." and its siblings.
Tensor one_hot(const Tensor& index, std::int64_t classes = -1);

}  // namespace core
