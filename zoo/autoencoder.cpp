#include "zoo/autoencoder.h"

#include "libcore/module/activation.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

using core::Linear;
using core::ReLU;
using core::Tensor;

Autoencoder::Autoencoder(const CodeOptions& o)
    : encoder{Linear(o.inputs, o.hidden), ReLU(), Linear(o.hidden, o.code)},
      decoder{Linear(o.code, o.hidden), ReLU(), Linear(o.hidden, o.inputs), core::Sigmoid()} {}

void Autoencoder::members(core::Members& m) {
  m.child("encoder", encoder).child("decoder", decoder);
}

Tensor Autoencoder::forward(const Tensor& x) {
  return decoder(encoder(x));
}

VAE::VAE(const CodeOptions& o)
    : fc1(o.inputs, o.hidden),
      fc21(o.hidden, o.code),
      fc22(o.hidden, o.code),
      fc3(o.code, o.hidden),
      fc4(o.hidden, o.inputs) {}

void VAE::members(core::Members& m) {
  m.child("fc1", fc1).child("fc21", fc21).child("fc22", fc22).child("fc3", fc3).child("fc4", fc4);
}

std::tuple<Tensor, Tensor, Tensor> VAE::forward(const Tensor& x, const Tensor& noise) {  // (n, inputs)
  Tensor h = core::relu(fc1(x));                                                         // (n, hidden)
  Tensor mean = fc21(h), logvar = fc22(h);                                               // (n, code)
  Tensor code = noise.defined() ? mean + noise * core::exp(logvar * 0.5) : mean;         // (n, code)
  return {core::sigmoid(fc4(core::relu(fc3(code)))), mean, logvar};
}

Tensor vae_loss(const std::tuple<Tensor, Tensor, Tensor>& output, const Tensor& x) {
  const auto& [image, mean, logvar] = output;
  const auto batch = static_cast<double>(x.size(0)), inputs = static_cast<double>(x.size(1));
  Tensor divergence = (logvar + 1 - mean.square() - core::exp(logvar)).sum({1}).mean() * -0.5;
  return core::binary_cross_entropy(image, x, {.reduction = core::Reduction::sum}) / batch / inputs +
         divergence / inputs;
}

}  // namespace zoo
