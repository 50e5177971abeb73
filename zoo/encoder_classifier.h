#pragma once
// A transformer encoder between two linear layers. Source: Vaswani et al. 2017.
// Thread safety: as core::Module. Use: zoo::EncoderClassifier net; core::Tensor logits = net(x);

#include <cstdint>
#include <string>

#include "libcore/module/linear.h"
#include "libcore/module/transformer.h"

namespace zoo {

struct EncoderClassifier : core::ModuleOf<EncoderClassifier> {
  struct Options {
    std::int64_t inputs = 16;
    std::int64_t width = 32;
    std::int64_t heads = 4;
    std::int64_t feedforward = 64;
    std::int64_t layers = 2;
    std::int64_t classes = 6;
    double dropout = 0.1;
    bool norm_first = false;
    std::string activation = "relu";
  };
  core::Linear proj;
  core::TransformerEncoder encoder;
  core::Linear fc;

  explicit EncoderClassifier(const Options& o);
  EncoderClassifier() : EncoderClassifier(Options()) {}
  void members(core::Members& m) override;
  /// (n, t, inputs) -> logits (n, t, classes).
  core::Tensor forward(const core::Tensor& x);
};

}  // namespace zoo
