#pragma once
// Skip-gram word vectors. Source: Mikolov et al. 2013.
// Thread safety: as core::Module. Use: zoo::Word2Vec net({.vocabulary = 5000}); core::Tensor s = net(centre, context);

#include <cstdint>

#include "libcore/module/embedding.h"

namespace zoo {

struct Word2Vec : core::ModuleOf<Word2Vec> {
  struct Options {
    std::int64_t vocabulary = 500;
    std::int64_t size = 32;
  };
  core::Embedding in_embed, out_embed;

  explicit Word2Vec(const Options& o);
  Word2Vec() : Word2Vec(Options()) {}
  void members(core::Members& m) override;
  /// centre (n), context (n, words), int64 -> dot products of their vectors (n, words).
  core::Tensor forward(const core::Tensor& centre, const core::Tensor& context);
};

}  // namespace zoo
