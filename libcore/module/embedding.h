#pragma once
// Embedding and EmbeddingBag: a table of vectors looked up by index. As torch.nn's modules of the same names.
// Thread safety: as Module. Use: core::Embedding words(1000, 64); core::Tensor v = words(indices);

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>

#include "libcore/module/module.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"

namespace core {

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  ///< its row is 0 and gets no gradient; negative counts from the end
  std::optional<double> max_norm = {};           ///< longer rows are rescaled when read
  double norm_type = 2;
  bool scale_grad_by_freq = false;
  bool sparse = false;  ///< the gradient is sparse: only rows that were looked up
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// indices: any shape, int64; weight: (count, width); result: (*, width).
struct Embedding : ModuleOf<Embedding> {
  std::int64_t num_embeddings;
  std::int64_t embedding_dim;
  std::optional<std::int64_t> padding_idx;
  std::optional<double> max_norm;
  double norm_type;
  bool scale_grad_by_freq;
  bool sparse;
  Parameter weight;

  Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& options = {});
  template <std::integral Index>
  Embedding(std::int64_t count, std::int64_t width, Index padding)
      : Embedding(count, width, EmbeddingOptions{.padding_idx = padding}) {}
  void reset_parameters();
  void members(Members& m) override;
  std::string extra_repr() const override;
  Tensor forward(const Tensor& indices) const;
};

struct EmbeddingBagOptions {
  std::optional<double> max_norm = {};
  double norm_type = 2;
  bool scale_grad_by_freq = false;
  BagMode mode = BagMode::mean;
  bool sparse = false;  ///< the gradient is sparse
  bool include_last_offset = false;
  std::optional<std::int64_t> padding_idx = {};  ///< left out of every bag
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// The sum, mean or maximum of the rows of each bag: indices (bags, length), or 1-D with offsets; result (bags, width).
struct EmbeddingBag : ModuleOf<EmbeddingBag> {
  std::int64_t num_embeddings;
  std::int64_t embedding_dim;
  EmbeddingBagOptions options;
  Parameter weight;

  EmbeddingBag(std::int64_t count, std::int64_t width, const EmbeddingBagOptions& given = {});
  void reset_parameters();
  void members(Members& m) override { m.parameter("weight", weight); }
  std::string extra_repr() const override;
  Tensor forward(const Tensor& indices, const Tensor& offsets = {}, const Tensor& per_sample_weights = {}) const;
};

// Made once, in the source of this header.
extern template class ModuleOf<Embedding>;
extern template class ModuleOf<EmbeddingBag>;

}  // namespace core
