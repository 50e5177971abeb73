#include "zoo/language_blocks.h"

#include "libcore/module/embedding.h"
#include "libcore/module/init.h"
#include "libcore/module/linear.h"
#include "libcore/tensor/factory.h"

namespace zoo::detail {

using core::Tensor;

Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

Tensor join_heads(const Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Tensor positions(const Tensor& tokens) {
  return core::arange(tokens.size(1), {.device = tokens.device()});
}

void init_language(core::Module& model, double std) {
  model.apply([std](core::Module& module) {
    if (auto* linear = dynamic_cast<core::Linear*>(&module)) {
      core::init::normal_(linear->weight, 0, std);
      if (linear->bias.defined()) core::init::zeros_(linear->bias);
    } else if (auto* embedding = dynamic_cast<core::Embedding*>(&module)) {
      core::init::normal_(embedding->weight, 0, std);
      if (embedding->padding_idx) core::init::zeros_(embedding->weight.detach().select(0, *embedding->padding_idx));
    }
  });
}

}  // namespace zoo::detail
