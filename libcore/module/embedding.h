#pragma once
// Embedding: a table of vectors looked up by index. As torch.nn.Embedding.
// Thread safety: as Module. Use: core::Embedding words(1000, 64); core::Tensor v = words(indices);

#include <cstdint>
#include <optional>
#include <string>

#include "libcore/module/module.h"

namespace core {

struct EmbeddingOptions {
  std::optional<std::int64_t> padding_idx = {};  ///< its row is 0 and gets no gradient; negative counts from the end
  std::optional<DType> dtype = {};
  std::optional<Device> device = {};
};

/// indices: any shape, int64; weight: (count, width); result: (*, width).
struct Embedding : ModuleOf<Embedding> {
  std::int64_t num_embeddings;
  std::int64_t embedding_dim;
  std::optional<std::int64_t> padding_idx;
  Parameter weight;

  Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& options = {});
  void reset_parameters();
  void members(Members& m) override;
  std::string extra_repr() const override;
  Tensor forward(const Tensor& indices) const;
};

}  // namespace core
