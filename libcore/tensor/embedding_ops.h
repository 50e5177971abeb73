#pragma once
// Looking up rows with all of PyTorch's options, and bags of rows, as torch.nn.functional. The plain look-up is in
// nn_ops.h. Thread safety: pure functions, but max_norm rescales rows of `weight` in place.
// Use: core::Tensor y = core::embedding_bag(indices, table, {.mode = core::BagMode::sum});

#include <cstdint>
#include <optional>

#include "libcore/tensor/nn_ops.h"

namespace core {

struct EmbeddingArguments {
  std::optional<std::int64_t> padding_idx = {};
  std::optional<double> max_norm = {};  ///< rows that are longer are rescaled to it before they are read
  double norm_type = 2;
  bool scale_grad_by_freq = false;  ///< gradients are divided by how often the row is asked for
  bool sparse = false;              ///< the gradient is a sparse tensor (sparse.h) of the rows that were asked for
};
Tensor embedding(const Tensor& indices, const Tensor& weight, const EmbeddingArguments& arguments);

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

}  // namespace core
