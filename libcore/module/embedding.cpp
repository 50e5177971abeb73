#include "libcore/module/embedding.h"

#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "libcore/module/init.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

std::optional<std::int64_t> wrapped(std::optional<std::int64_t> index, std::int64_t count) {
  if (!index) return index;
  if (*index >= count || *index < -count) {
    throw Error(ErrorCode::assertion, "Padding_idx must be within num_embeddings");
  }
  return *index < 0 ? *index + count : *index;
}

void fill_table(const Tensor& weight, std::optional<std::int64_t> padding_idx) {
  init::normal_(weight);
  if (!padding_idx) return;
  const NoGradGuard no_history;
  weight.select(0, *padding_idx).fill_(0);
}

const char* name(BagMode mode) {
  return mode == BagMode::sum ? "'sum'" : mode == BagMode::mean ? "'mean'" : "'max'";
}

}  // namespace

Embedding::Embedding(std::int64_t count, std::int64_t width, const EmbeddingOptions& options)
    : num_embeddings(count),
      embedding_dim(width),
      padding_idx(wrapped(options.padding_idx, count)),
      max_norm(options.max_norm),
      norm_type(options.norm_type),
      scale_grad_by_freq(options.scale_grad_by_freq),
      sparse(options.sparse) {
  weight = Parameter(empty({count, width}, {.dtype = options.dtype, .device = options.device}));
  reset_parameters();
}

void Embedding::reset_parameters() {
  fill_table(weight, padding_idx);
}

void Embedding::members(Members& m) {
  m.parameter("weight", weight);
}

std::string Embedding::extra_repr() const {
  std::string text = std::to_string(num_embeddings) + ", " + std::to_string(embedding_dim);
  if (padding_idx) text += ", padding_idx=" + std::to_string(*padding_idx);
  if (max_norm) text += ", max_norm=" + python_float(*max_norm);
  if (norm_type != 2) text += ", norm_type=" + python_float(norm_type);
  if (scale_grad_by_freq) text += ", scale_grad_by_freq=True";
  if (sparse) text += ", sparse=True";
  return text;
}

Tensor Embedding::forward(const Tensor& indices) const {
  return embedding(indices, weight, EmbeddingArguments{padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse});
}

EmbeddingBag::EmbeddingBag(std::int64_t count, std::int64_t width, const EmbeddingBagOptions& given)
    : num_embeddings(count), embedding_dim(width), options(given) {
  options.padding_idx = wrapped(given.padding_idx, count);
  weight = Parameter(empty({count, width}, {.dtype = given.dtype, .device = given.device}));
  reset_parameters();
}

void EmbeddingBag::reset_parameters() {
  fill_table(weight, options.padding_idx);
}

std::string EmbeddingBag::extra_repr() const {
  std::string text = std::to_string(num_embeddings) + ", " + std::to_string(embedding_dim);
  if (options.max_norm) text += ", max_norm=" + python_float(*options.max_norm);
  if (options.norm_type != 2) text += ", norm_type=" + python_float(options.norm_type);
  if (options.scale_grad_by_freq) text += ", scale_grad_by_freq=True";
  text += std::string(", mode=") + name(options.mode);
  if (options.padding_idx) text += ", padding_idx=" + std::to_string(*options.padding_idx);
  return text;
}

Tensor EmbeddingBag::forward(const Tensor& indices, const Tensor& offsets, const Tensor& per_sample_weights) const {
  return embedding_bag(indices, weight,
                       {.offsets = offsets,
                        .max_norm = options.max_norm,
                        .norm_type = options.norm_type,
                        .scale_grad_by_freq = options.scale_grad_by_freq,
                        .mode = options.mode,
                        .sparse = options.sparse,
                        .per_sample_weights = per_sample_weights,
                        .include_last_offset = options.include_last_offset,
                        .padding_idx = options.padding_idx});
}

template class ModuleOf<Embedding>;
template class ModuleOf<EmbeddingBag>;

}  // namespace core
