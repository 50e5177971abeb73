#include "zoo/capsnet.h"

#include "libcore/module/activation.h"
#include "libcore/module/init.h"
#include "libcore/module/linear.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/ops/softmax.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

using core::Linear;
using core::Tensor;

Tensor squash(const Tensor& s) {
  Tensor q = (s * s).sum({-1}, true);
  return q / (q + 1) * s / core::sqrt(q + 1e-9);
}

namespace capsnet {

PrimaryCaps::PrimaryCaps(const Options& o)
    : types(o.types), size(o.size), conv(o.channels, o.types * o.size, o.kernel, {.stride = o.stride}) {}

Tensor PrimaryCaps::forward(const Tensor& x) {
  Tensor h = conv(x);  // (n, types * size, h, w)
  Tensor split = h.view({h.size(0), types, size, h.size(2), h.size(3)});
  return squash(split.permute({0, 1, 3, 4, 2}).reshape({h.size(0), -1, size}));
}

DigitCaps::DigitCaps(const Options& o)
    : iterations(o.iterations),
      W(core::init::normal_(core::empty({o.inputs, o.outputs, o.out_size, o.in_size}), 0, 0.01)) {}

// Weighted sums and agreements are matrix products per class, so that nothing as large as the votes is made but the
// votes.
Tensor DigitCaps::forward(const Tensor& capsules) {                           // (n, inputs, in_size)
  Tensor votes = core::einsum("ijkl,bil->bjik", {W, capsules}).contiguous();  // (n, outputs, inputs, out_size)
  Tensor fixed = votes.detach();
  Tensor couplings =  // (n, outputs, 1, inputs); the softmax of zeros at first
      core::full({votes.size(0), votes.size(1), 1, votes.size(2)}, 1.0 / static_cast<double>(votes.size(1)),
                 {.dtype = votes.dtype(), .device = votes.device()});
  Tensor result, logits;  // (n, outputs, 1, out_size), as couplings
  for (std::int64_t i = 0; i < iterations; ++i) {
    const bool last = i + 1 == iterations;
    result = squash(core::matmul(couplings, last ? votes : fixed));
    if (last) break;
    Tensor agreement = core::matmul(result, fixed.transpose(2, 3));
    logits = logits.defined() ? logits + agreement : agreement;
    couplings = core::softmax(logits, 1);
  }
  return result.squeeze(2);  // (n, outputs, out_size)
}

}  // namespace capsnet

namespace {

std::int64_t primary_count(const CapsNet::Options& o) {
  const std::int64_t side = (o.image - o.kernel + 1 - o.kernel) / 2 + 1;
  return o.types * side * side;
}

}  // namespace

CapsNet::CapsNet(const Options& o)
    : conv1(o.in_channels, o.channels, o.kernel),
      primary({.channels = o.channels, .types = o.types, .size = o.primary_size, .kernel = o.kernel}),
      digit({.inputs = primary_count(o),
             .in_size = o.primary_size,
             .outputs = o.num_classes,
             .out_size = o.digit_size,
             .iterations = o.iterations}),
      decoder{Linear(o.num_classes * o.digit_size, o.hidden[0]),
              core::ReLU(),
              Linear(o.hidden[0], o.hidden[1]),
              core::ReLU(),
              Linear(o.hidden[1], o.in_channels * o.image * o.image),
              core::Sigmoid()} {}

void CapsNet::members(core::Members& m) {
  m.child("conv1", conv1).child("primary", primary).child("digit", digit).child("decoder", decoder);
}

std::tuple<Tensor, Tensor> CapsNet::forward(const Tensor& x, const Tensor& label) {  // (n, c, image, image)
  Tensor v = digit(primary(core::relu(conv1(x))));                                   // (n, classes, digit_size)
  Tensor lengths = core::sqrt((v * v).sum({-1}) + 1e-9);                             // (n, classes)
  Tensor chosen = label.defined() ? label : core::argmax(lengths, 1);                // (n)
  Tensor mask = core::one_hot(chosen, v.size(1)).to(v.dtype()).unsqueeze(-1);        // (n, classes, 1)
  return {lengths, decoder((v * mask).flatten(1))};
}

Tensor capsule_loss(const std::tuple<Tensor, Tensor>& output, const Tensor& x, const Tensor& label) {
  const auto& [lengths, image] = output;
  Tensor right = core::one_hot(label, lengths.size(1)).to(lengths.dtype());  // (n, classes)
  Tensor margin = right * core::relu(core::rsub(lengths, 0.9)).square() +
                  core::rsub(right, 1) * 0.5 * core::relu(lengths - 0.1).square();
  Tensor rebuilt = (image - x.flatten(1)).square().sum({1});  // (n)
  return (margin.sum({1}) + rebuilt * 0.0005).mean();
}

}  // namespace zoo
