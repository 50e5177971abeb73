#include "zoo/shufflenet.h"

#include <string>
#include <vector>

#include "libcore/base/error.h"
#include "libcore/module/activation.h"
#include "libcore/module/norm.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/resize.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

using core::BatchNorm2d;
using core::Conv2d;
using core::Tensor;

namespace shufflenet {

Conv2d pointwise(std::int64_t in, std::int64_t out) {
  return Conv2d(in, out, 1, {.bias = false});
}
Conv2d depthwise(std::int64_t channels, std::int64_t stride) {
  return Conv2d(channels, channels, 3, {.stride = stride, .padding = 1, .groups = channels, .bias = false});
}
core::ReLU relu() {
  return core::ReLU({.inplace = true});
}

struct BlockOptions {
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t stride = 1;
};

/// Works on one half of the channels (with a stride: on two copies of all), then mixes the halves.
/// (n, in, h, w) -> (n, out, h / stride, w / stride).
struct InvertedResidual : core::ModuleOf<InvertedResidual> {
  core::Sequential branch1, branch2;
  std::int64_t stride;

  explicit InvertedResidual(const BlockOptions& o) : stride(o.stride) {
    const std::int64_t half = o.out / 2;
    if (stride > 1) {
      branch1 = core::Sequential{depthwise(o.in, stride), BatchNorm2d(o.in), pointwise(o.in, half), BatchNorm2d(half),
                                 relu()};
    }
    branch2 = core::Sequential{pointwise(stride > 1 ? o.in : half, half),
                               BatchNorm2d(half),
                               relu(),
                               depthwise(half, stride),
                               BatchNorm2d(half),
                               pointwise(half, half),
                               BatchNorm2d(half),
                               relu()};
  }
  void members(core::Members& m) override { m.child("branch1", branch1).child("branch2", branch2); }
  Tensor forward(const Tensor& x) {
    if (stride > 1) return core::channel_shuffle(core::cat({branch1(x), branch2(x)}, 1), 2);
    std::vector<Tensor> halves = x.chunk(2, 1);  // (n, out / 2, h, w) each
    return core::channel_shuffle(core::cat({halves[0], branch2(halves[1])}, 1), 2);
  }
};

const ShuffleNetV2::Options& checked(const ShuffleNetV2::Options& o) {
  if (o.repeats.size() == 3 && o.widths.size() == 5) return o;
  throw core::Error(core::ErrorCode::value, "ShuffleNet v2 has 3 stages and 5 widths, not " +
                                                std::to_string(o.repeats.size()) + " and " +
                                                std::to_string(o.widths.size()));
}

/// stage: 1 to 3.
core::Sequential make_stage(const ShuffleNetV2::Options& o, std::size_t stage) {
  core::Sequential made;
  made.push_back(InvertedResidual({.in = o.widths[stage - 1], .out = o.widths[stage], .stride = 2}));
  for (std::int64_t i = 1; i < o.repeats[stage - 1]; ++i) {
    made.push_back(InvertedResidual({.in = o.widths[stage], .out = o.widths[stage], .stride = 1}));
  }
  return made;
}

}  // namespace shufflenet

ShuffleNetV2::ShuffleNetV2(const Options& o)
    : conv1{Conv2d(o.in_channels, shufflenet::checked(o).widths[0], 3, {.stride = 2, .padding = 1, .bias = false}),
            BatchNorm2d(o.widths[0]), shufflenet::relu()},
      maxpool(3, {.stride = 2, .padding = 1}),
      stage2(shufflenet::make_stage(o, 1)),
      stage3(shufflenet::make_stage(o, 2)),
      stage4(shufflenet::make_stage(o, 3)),
      conv5{shufflenet::pointwise(o.widths[3], o.widths[4]), BatchNorm2d(o.widths[4]), shufflenet::relu()},
      fc(o.widths[4], o.num_classes) {}

void ShuffleNetV2::members(core::Members& m) {
  m.child("conv1", conv1).child("maxpool", maxpool).child("stage2", stage2).child("stage3", stage3);
  m.child("stage4", stage4).child("conv5", conv5).child("fc", fc);
}

Tensor ShuffleNetV2::forward(const Tensor& x) {  // (n, c, 224, 224)
  Tensor h = maxpool(conv1(x));                  // (n, 24, 56, 56)
  h = conv5(stage4(stage3(stage2(h))));          // (n, 1024 or 2048, 7, 7)
  return fc(h.mean({2, 3}));                     // (n, classes)
}

}  // namespace zoo
