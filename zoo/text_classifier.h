#pragma once
// What models that tell classes of texts apart have in common: several texts at once, the shorter ones padded.
// Thread safety: as core::Module. Use: core::Tensor logits =
// dynamic_cast<zoo::TextClassifier&>(*net).classified(tokens, core::ones_like(tokens));

#include "libcore/tensor/tensor.h"

namespace zoo {

struct TextClassifier {
  virtual ~TextClassifier() = default;
  /// tokens (n, t) i64, and a mask (n, t) that is 0 where a token is padding -> logits (n, classes).
  virtual core::Tensor classified(const core::Tensor& tokens, const core::Tensor& mask) = 0;
};

}  // namespace zoo
