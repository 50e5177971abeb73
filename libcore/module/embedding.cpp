#include "libcore/module/embedding.h"

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/module/init.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/nn_ops.h"

namespace core {
namespace {

std::optional<std::int64_t> wrapped(std::optional<std::int64_t> index, std::int64_t count) {
  if (!index) return index;
  if (*index >= count || *index < -count) {
    throw Error(ErrorCode::assertion, "Padding_idx must be within num_embeddings");
  }
  return *index < 0 ? *index + count : *index;
}

}  // namespace

Embedding::Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& options)
    : num_embeddings(count), embedding_dim(width), padding_idx(wrapped(options.padding_idx, count)) {
  weight = Parameter(empty({count, width}, {.dtype = options.dtype, .device = options.device}));
  reset_parameters();
}

void Embedding::reset_parameters() {
  init::normal_(weight);
  if (!padding_idx) return;
  const NoGradGuard no_history;
  weight.select(0, *padding_idx).fill_(0);
}

void Embedding::members(Members& m) {
  m.parameter("weight", weight);
}

std::string Embedding::extra_repr() const {
  std::string text = std::to_string(num_embeddings) + ", " + std::to_string(embedding_dim);
  if (padding_idx) text += ", padding_idx=" + std::to_string(*padding_idx);
  return text;
}

Tensor Embedding::forward(const Tensor& indices) const {
  return embedding(indices, weight, padding_idx);
}

}  // namespace core
