#include "zoo/word2vec.h"

#include "libcore/ops/blas.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

using core::Tensor;

Word2Vec::Word2Vec(const Options& o) : in_embed(o.vocabulary, o.size), out_embed(o.vocabulary, o.size) {}

void Word2Vec::members(core::Members& m) {
  m.child("in_embed", in_embed).child("out_embed", out_embed);
}

Tensor Word2Vec::forward(const Tensor& centre, const Tensor& context) {
  Tensor vectors = in_embed(centre).unsqueeze(2);            // (n, size, 1)
  return core::bmm(out_embed(context), vectors).squeeze(2);  // (n, words)
}

}  // namespace zoo
