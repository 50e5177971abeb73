#include "zoo/encoder_classifier.h"

namespace zoo {

EncoderClassifier::EncoderClassifier(const Options& o)
    : proj(o.inputs, o.width),
      encoder(core::TransformerEncoderLayer(o.width, o.heads,
                                            {.dim_feedforward = o.feedforward,
                                             .dropout = o.dropout,
                                             .activation = o.activation,
                                             .batch_first = true,
                                             .norm_first = o.norm_first}),
              o.layers),
      fc(o.width, o.classes) {}

void EncoderClassifier::members(core::Members& m) {
  m.child("proj", proj).child("encoder", encoder).child("fc", fc);
}

core::Tensor EncoderClassifier::forward(const core::Tensor& x) {
  return fc(encoder(proj(x)));
}

}  // namespace zoo
