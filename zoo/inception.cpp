#include "zoo/inception.h"

#include "libcore/ops/blas.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/join.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pool.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/tensor.h"
#include "zoo/blocks.h"

namespace zoo {

using core::Tensor;
using Conv = googlenet::BasicConv2d;

// The names of these classes are printed. w: side of the image at that place, for inputs of 299 x 299.

/// w = 35. (n, in, w, w) -> (n, 224 + pooled, w, w).
struct InceptionA : core::ModuleOf<InceptionA> {
  Conv branch1x1, branch5x5_1, branch5x5_2, branch3x3dbl_1, branch3x3dbl_2, branch3x3dbl_3, branch_pool;

  InceptionA(std::int64_t in, std::int64_t pooled)
      : branch1x1(in, 64, 1),
        branch5x5_1(in, 48, 1),
        branch5x5_2(48, 64, 5, {.padding = 2}),
        branch3x3dbl_1(in, 64, 1),
        branch3x3dbl_2(64, 96, 3, {.padding = 1}),
        branch3x3dbl_3(96, 96, 3, {.padding = 1}),
        branch_pool(in, pooled, 1) {}
  void members(core::Members& m) override {
    m.child("branch1x1", branch1x1).child("branch5x5_1", branch5x5_1).child("branch5x5_2", branch5x5_2);
    m.child("branch3x3dbl_1", branch3x3dbl_1).child("branch3x3dbl_2", branch3x3dbl_2);
    m.child("branch3x3dbl_3", branch3x3dbl_3).child("branch_pool", branch_pool);
  }
  Tensor forward(const Tensor& x) {
    Tensor pooled = core::avg_pool2d(x, 3, {.stride = 1, .padding = 1});
    return core::cat({branch1x1(x), branch5x5_2(branch5x5_1(x)), branch3x3dbl_3(branch3x3dbl_2(branch3x3dbl_1(x))),
                      branch_pool(pooled)},
                     1);
  }
};

/// w = 35 -> 17. (n, in, w, w) -> (n, in + 480, w / 2, w / 2).
struct InceptionB : core::ModuleOf<InceptionB> {
  Conv branch3x3, branch3x3dbl_1, branch3x3dbl_2, branch3x3dbl_3;

  explicit InceptionB(std::int64_t in)
      : branch3x3(in, 384, 3, {.stride = 2}),
        branch3x3dbl_1(in, 64, 1),
        branch3x3dbl_2(64, 96, 3, {.padding = 1}),
        branch3x3dbl_3(96, 96, 3, {.stride = 2}) {}
  void members(core::Members& m) override {
    m.child("branch3x3", branch3x3).child("branch3x3dbl_1", branch3x3dbl_1);
    m.child("branch3x3dbl_2", branch3x3dbl_2).child("branch3x3dbl_3", branch3x3dbl_3);
  }
  Tensor forward(const Tensor& x) {
    return core::cat(
        {branch3x3(x), branch3x3dbl_3(branch3x3dbl_2(branch3x3dbl_1(x))), core::max_pool2d(x, 3, {.stride = 2})}, 1);
  }
};

/// w = 17; 7 x 7 convolutions taken apart into rows and columns. (n, in, w, w) -> (n, 768, w, w).
struct InceptionC : core::ModuleOf<InceptionC> {
  Conv branch1x1, branch7x7_1, branch7x7_2, branch7x7_3;
  Conv branch7x7dbl_1, branch7x7dbl_2, branch7x7dbl_3, branch7x7dbl_4, branch7x7dbl_5, branch_pool;

  static Conv row(std::int64_t in, std::int64_t out) { return Conv(in, out, {1, 7}, {.padding = {0, 3}}); }
  static Conv column(std::int64_t in, std::int64_t out) { return Conv(in, out, {7, 1}, {.padding = {3, 0}}); }

  InceptionC(std::int64_t in, std::int64_t width)
      : branch1x1(in, 192, 1),
        branch7x7_1(in, width, 1),
        branch7x7_2(row(width, width)),
        branch7x7_3(column(width, 192)),
        branch7x7dbl_1(in, width, 1),
        branch7x7dbl_2(column(width, width)),
        branch7x7dbl_3(row(width, width)),
        branch7x7dbl_4(column(width, width)),
        branch7x7dbl_5(row(width, 192)),
        branch_pool(in, 192, 1) {}
  void members(core::Members& m) override {
    m.child("branch1x1", branch1x1).child("branch7x7_1", branch7x7_1).child("branch7x7_2", branch7x7_2);
    m.child("branch7x7_3", branch7x7_3).child("branch7x7dbl_1", branch7x7dbl_1);
    m.child("branch7x7dbl_2", branch7x7dbl_2).child("branch7x7dbl_3", branch7x7dbl_3);
    m.child("branch7x7dbl_4", branch7x7dbl_4).child("branch7x7dbl_5", branch7x7dbl_5);
    m.child("branch_pool", branch_pool);
  }
  Tensor forward(const Tensor& x) {
    Tensor twice = branch7x7dbl_3(branch7x7dbl_2(branch7x7dbl_1(x)));
    Tensor pooled = core::avg_pool2d(x, 3, {.stride = 1, .padding = 1});
    return core::cat({branch1x1(x), branch7x7_3(branch7x7_2(branch7x7_1(x))), branch7x7dbl_5(branch7x7dbl_4(twice)),
                      branch_pool(pooled)},
                     1);
  }
};

/// w = 17 -> 8. (n, in, w, w) -> (n, in + 512, w / 2, w / 2).
struct InceptionD : core::ModuleOf<InceptionD> {
  Conv branch3x3_1, branch3x3_2, branch7x7x3_1, branch7x7x3_2, branch7x7x3_3, branch7x7x3_4;

  explicit InceptionD(std::int64_t in)
      : branch3x3_1(in, 192, 1),
        branch3x3_2(192, 320, 3, {.stride = 2}),
        branch7x7x3_1(in, 192, 1),
        branch7x7x3_2(InceptionC::row(192, 192)),
        branch7x7x3_3(InceptionC::column(192, 192)),
        branch7x7x3_4(192, 192, 3, {.stride = 2}) {}
  void members(core::Members& m) override {
    m.child("branch3x3_1", branch3x3_1).child("branch3x3_2", branch3x3_2).child("branch7x7x3_1", branch7x7x3_1);
    m.child("branch7x7x3_2", branch7x7x3_2).child("branch7x7x3_3", branch7x7x3_3);
    m.child("branch7x7x3_4", branch7x7x3_4);
  }
  Tensor forward(const Tensor& x) {
    Tensor seven = branch7x7x3_3(branch7x7x3_2(branch7x7x3_1(x)));
    return core::cat({branch3x3_2(branch3x3_1(x)), branch7x7x3_4(seven), core::max_pool2d(x, 3, {.stride = 2})}, 1);
  }
};

/// w = 8; 3 x 3 convolutions as a row and a column side by side. (n, in, w, w) -> (n, 2048, w, w).
struct InceptionE : core::ModuleOf<InceptionE> {
  Conv branch1x1, branch3x3_1, branch3x3_2a, branch3x3_2b;
  Conv branch3x3dbl_1, branch3x3dbl_2, branch3x3dbl_3a, branch3x3dbl_3b, branch_pool;

  explicit InceptionE(std::int64_t in)
      : branch1x1(in, 320, 1),
        branch3x3_1(in, 384, 1),
        branch3x3_2a(384, 384, {1, 3}, {.padding = {0, 1}}),
        branch3x3_2b(384, 384, {3, 1}, {.padding = {1, 0}}),
        branch3x3dbl_1(in, 448, 1),
        branch3x3dbl_2(448, 384, 3, {.padding = 1}),
        branch3x3dbl_3a(384, 384, {1, 3}, {.padding = {0, 1}}),
        branch3x3dbl_3b(384, 384, {3, 1}, {.padding = {1, 0}}),
        branch_pool(in, 192, 1) {}
  void members(core::Members& m) override {
    m.child("branch1x1", branch1x1).child("branch3x3_1", branch3x3_1).child("branch3x3_2a", branch3x3_2a);
    m.child("branch3x3_2b", branch3x3_2b).child("branch3x3dbl_1", branch3x3dbl_1);
    m.child("branch3x3dbl_2", branch3x3dbl_2).child("branch3x3dbl_3a", branch3x3dbl_3a);
    m.child("branch3x3dbl_3b", branch3x3dbl_3b).child("branch_pool", branch_pool);
  }
  Tensor forward(const Tensor& x) {
    Tensor three = branch3x3_1(x);                     // (n, 384, w, w)
    Tensor twice = branch3x3dbl_2(branch3x3dbl_1(x));  // (n, 384, w, w)
    Tensor pooled = core::avg_pool2d(x, 3, {.stride = 1, .padding = 1});
    return core::cat({branch1x1(x), branch3x3_2a(three), branch3x3_2b(three), branch3x3dbl_3a(twice),
                      branch3x3dbl_3b(twice), branch_pool(pooled)},
                     1);
  }
};

namespace inception {

/// w = 17. (n, in, w, w) -> logits (n, classes).
struct InceptionAux : core::ModuleOf<InceptionAux> {
  Conv conv0, conv1;
  core::Linear fc;
  InceptionAux(std::int64_t in, std::int64_t classes) : conv0(in, 128, 1), conv1(128, 768, 5), fc(768, classes) {}
  void members(core::Members& m) override { m.child("conv0", conv0).child("conv1", conv1).child("fc", fc); }
  Tensor forward(const Tensor& x) {
    Tensor h = conv0(core::avg_pool2d(x, 5, {.stride = 3}));  // (n, 128, 5, 5)
    h = core::adaptive_avg_pool2d(conv1(h), {1, 1});          // (n, 768, 1, 1)
    return fc(h.flatten(1));                                  // (n, classes)
  }
};

}  // namespace inception

Inception3::Inception3(const Options& o)
    : conv_1a(o.in_channels, 32, 3, {.stride = 2}),
      conv_2a(32, 32, 3),
      conv_2b(32, 64, 3, {.padding = 1}),
      maxpool1(3, {.stride = 2}),
      conv_3b(64, 80, 1),
      conv_4a(80, 192, 3),
      maxpool2(3, {.stride = 2}),
      mixed_5b(std::make_shared<InceptionA>(192, 32)),
      mixed_5c(std::make_shared<InceptionA>(256, 64)),
      mixed_5d(std::make_shared<InceptionA>(288, 64)),
      mixed_6a(std::make_shared<InceptionB>(288)),
      mixed_6b(std::make_shared<InceptionC>(768, 128)),
      mixed_6c(std::make_shared<InceptionC>(768, 160)),
      mixed_6d(std::make_shared<InceptionC>(768, 160)),
      mixed_6e(std::make_shared<InceptionC>(768, 192)),
      aux_head(o.aux_logits ? std::make_shared<inception::InceptionAux>(768, o.num_classes) : nullptr),
      mixed_7a(std::make_shared<InceptionD>(768)),
      mixed_7b(std::make_shared<InceptionE>(1280)),
      mixed_7c(std::make_shared<InceptionE>(2048)),
      avgpool({1, 1}),
      dropout(o.dropout),
      fc(2048, o.num_classes),
      transform_input(o.transform_input) {
  const core::Linear* aux_fc = o.aux_logits ? &dynamic_cast<inception::InceptionAux&>(*aux_head).fc : nullptr;
  detail::init_layers(
      *this, [](core::Conv2d& conv) { core::trunc_normal_(conv.weight, {.std = 0.1}); },
      [&](core::Linear& linear) { core::trunc_normal_(linear.weight, {.std = &linear == aux_fc ? 0.001 : 0.1}); });
}

void Inception3::members(core::Members& m) {
  m.child("Conv2d_1a_3x3", conv_1a).child("Conv2d_2a_3x3", conv_2a).child("Conv2d_2b_3x3", conv_2b);
  m.child("maxpool1", maxpool1).child("Conv2d_3b_1x1", conv_3b).child("Conv2d_4a_3x3", conv_4a);
  m.child("maxpool2", maxpool2).child("Mixed_5b", mixed_5b).child("Mixed_5c", mixed_5c).child("Mixed_5d", mixed_5d);
  m.child("Mixed_6a", mixed_6a).child("Mixed_6b", mixed_6b).child("Mixed_6c", mixed_6c);
  m.child("Mixed_6d", mixed_6d).child("Mixed_6e", mixed_6e);
  if (aux_head) m.child("AuxLogits", aux_head);
  m.child("Mixed_7a", mixed_7a).child("Mixed_7b", mixed_7b).child("Mixed_7c", mixed_7c);
  m.child("avgpool", avgpool).child("dropout", dropout).child("fc", fc);
}

Inception3::Outputs Inception3::run(const Tensor& x, bool head) {  // (n, c, 299, 299)
  Outputs out;
  Tensor h = transform_input ? googlenet::as_first_trained(x) : x;
  h = maxpool1(conv_2b(conv_2a(conv_1a(h))));  // (n, 64, 73, 73)
  h = maxpool2(conv_4a(conv_3b(h)));           // (n, 192, 35, 35)
  for (const Block& block : {mixed_5b, mixed_5c, mixed_5d, mixed_6a, mixed_6b, mixed_6c, mixed_6d, mixed_6e}) {
    h = block->call(h);  // (n, 768, 17, 17) behind the last
  }
  if (head && aux_head) out.aux_logits = aux_head->call(h);                      // (n, classes)
  for (const Block& block : {mixed_7a, mixed_7b, mixed_7c}) h = block->call(h);  // (n, 2048, 8, 8)
  out.logits = fc(dropout(avgpool(h)).flatten(1));                               // (n, classes)
  return out;
}

}  // namespace zoo
