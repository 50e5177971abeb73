#include "libcore/autograd/grad_mode.h"
#include "libcore/base/error.h"
#include "libcore/module/activation.h"
#include "libcore/module/conv.h"
#include "libcore/module/dropout.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/loss.h"
#include "libcore/tensor/factory.h"
#include "tests/libcore/module/error_cases.h"

namespace test {
namespace {

using namespace core;  // a long list of calls
using P = ErrorProgram;

const TensorOptions kMeta{.device = Device("meta")};
const TensorOptions kLong{.dtype = DType::i64};
const TensorOptions kDouble{.dtype = DType::f64};

struct MyModule : ModuleOf<MyModule> {
  Linear fc{3, 5};
  void members(Members& m) override { m.child("fc", fc); }
  Tensor forward(const Tensor& x) { return fc(x); }
};

/// Registers one more member of each kind under a name.
enum class Kind { parameter, buffer, child };
struct Registers : ModuleOf<Registers> {
  Kind kind;
  std::string name;
  Linear fc{1, 1};
  ReLU x;
  Parameter weight{ones({1})};
  Tensor extra = ones({1});

  Registers(Kind given, std::string member) : kind(given), name(std::move(member)) {}
  void members(Members& m) override {
    m.child("fc", fc).child("x", x);
    m.parameter(kind == Kind::parameter ? name : "weight", weight);
    if (kind == Kind::buffer) m.buffer(name, extra);
    if (kind == Kind::child) m.child(name, x);
  }
};

template <Kind kind>
void register_named(const P& p) {
  Registers(kind, p.s(0)).named_modules();
}

void add_linear_and_conv_cases(ErrorCases& c) {
  c["shape/linear"] = [](const P& p) { Linear(p.n(0), p.n(1))(ones({p.n(2), p.n(3)})); };
  c["shape/linear_3d"] = [](const P& p) { Linear(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4)})); };
  c["dtype/linear"] = [](const P& p) { Linear(p.n(0), p.n(1))(ones({p.n(2), p.n(3)}, kDouble)); };
  c["dtype/linear_int"] = [](const P& p) { Linear(p.n(0), p.n(1))(ones({p.n(2), p.n(3)}, kLong)); };
  c["mixed/linear"] = [](const P& p) { Linear(p.n(0), p.n(1), {.device = Device("meta")})(ones({p.n(2), p.n(3)})); };
  c["mixed/linear_rev"] = [](const P& p) { Linear(p.n(0), p.n(1))(ones({p.n(2), p.n(3)}, kMeta)); };
  c["dtype/conv"] = [](const P& p) { Conv2d(p.n(0), p.n(1), p.n(2))(ones({p.n(3), p.n(4), p.n(5), p.n(6)}, kDouble)); };
  c["conv/channels"] = [](const P& p) { Conv2d(p.n(0), p.n(1), p.n(2))(ones({p.n(3), p.n(4), p.n(5), p.n(6)})); };
  c["conv/channels_groups"] = [](const P& p) {
    Conv2d(p.n(0), p.n(1), p.n(2), {.groups = p.n(3)})(ones({p.n(4), p.n(5), p.n(6), p.n(7)}));
  };
  c["conv/rank"] = [](const P& p) { Conv2d(p.n(0), p.n(1), p.n(2))(ones({p.n(3), p.n(4)})); };
  c["conv/kernel"] = c["conv/channels"];
  c["conv/groups_in"] = [](const P& p) { Conv2d(p.n(0), p.n(1), p.n(2), {.groups = p.n(3)}); };
  c["conv/groups_out"] = c["conv/groups_in"];
  c["conv/groups_zero"] = c["conv/groups_in"];
  c["conv/stride_zero"] = [](const P& p) {
    conv2d(ones({p.n(0), p.n(1), p.n(2), p.n(3)}), ones({p.n(4), p.n(5), p.n(6), p.n(7)}), {}, {.stride = p.n(8)});
  };
  c["conv/padding_negative"] = [](const P& p) {
    conv2d(ones({p.n(0), p.n(1), p.n(2), p.n(3)}), ones({p.n(4), p.n(5), p.n(6), p.n(7)}), {}, {.padding = p.n(8)});
  };
  c["conv/padding_string"] = [](const P& p) { Conv2d(p.n(0), p.n(1), p.n(2), {.padding = Padding(p.s(0))}); };
  c["conv/padding_same_stride"] = [](const P& p) {
    Conv2d(p.n(0), p.n(1), p.n(2), {.stride = p.n(3), .padding = Padding(p.s(0))});
  };
  c["conv/padding_mode"] = [](const P& p) { Conv2d(p.n(0), p.n(1), p.n(2), {.padding_mode = p.s(0)}); };
  c["conv/bias"] = [](const P& p) {
    conv2d(ones({p.n(0), p.n(1), p.n(2), p.n(3)}), ones({p.n(4), p.n(5), p.n(6), p.n(7)}), ones({p.n(8)}));
  };
}

void add_pool_and_norm_cases(ErrorCases& c) {
  c["pool/small"] = [](const P& p) { max_pool2d(ones({p.n(0), p.n(1), p.n(2), p.n(3)}), p.n(4)); };
  c["pool/padding"] = [](const P& p) {
    max_pool2d(ones({p.n(0), p.n(1), p.n(2), p.n(3)}), p.n(4), {.padding = p.n(5)});
  };
  c["pool/rank"] = [](const P& p) { max_pool2d(ones({p.n(0), p.n(1)}), p.n(2)); };
  c["pool/avg_divisor"] = [](const P& p) {
    avg_pool2d(ones({p.n(0), p.n(1), p.n(2), p.n(3)}), p.n(4), {.divisor_override = p.n(5)});
  };
  c["pool/adaptive_rank"] = [](const P& p) { adaptive_avg_pool2d(ones({p.n(0)}), p.n(1)); };
  c["norm/one_value"] = [](const P& p) { BatchNorm1d(p.n(0))(ones({p.n(1), p.n(2)})); };
  c["norm/rank1"] = [](const P& p) { BatchNorm1d(p.n(0))(ones({p.n(1)})); };
  c["norm/rank2"] = [](const P& p) { BatchNorm2d(p.n(0))(ones({p.n(1), p.n(2), p.n(3)})); };
  c["norm/channels"] = [](const P& p) { BatchNorm2d(p.n(0))(ones({p.n(1), p.n(2), p.n(3), p.n(4)})); };
  c["norm/layer"] = [](const P& p) { LayerNorm({p.n(0)})(ones({p.n(1), p.n(2)})); };
  c["mixed/batch_norm"] = [](const P& p) { BatchNorm1d(p.n(0), {.device = Device("meta")})(ones({p.n(1), p.n(2)})); };
  c["index/softmax_dim"] = [](const P& p) { softmax(ones({p.n(0), p.n(1)}), p.n(2)); };
  c["softmax/module_dim"] = [](const P& p) { Softmax(p.n(0))(ones({p.n(1), p.n(2)})); };
  c["dtype/softmax_int"] = [](const P& p) { softmax(ones({p.n(0)}, kLong), p.n(1)); };
  c["dropout/p"] = [](const P& p) { Dropout(p.x(0)); };
  c["dropout/p_functional"] = [](const P& p) { dropout(ones({p.n(0)}), p.x(1)); };
  c["index/embedding"] = [](const P& p) { Embedding(p.n(0), p.n(1))(tensor({p.n(2)})); };
  c["index/embedding_negative"] = c["index/embedding"];
  c["index/embedding_float"] = [](const P& p) { Embedding(p.n(0), p.n(1))(tensor({p.x(2)})); };
  c["index/embedding_padding"] = [](const P& p) { Embedding(p.n(0), p.n(1), {.padding_idx = p.n(2)}); };
}

void add_loss_cases(ErrorCases& c) {
  c["loss/target_range"] = [](const P& p) { cross_entropy(ones({p.n(0), p.n(1)}), tensor({p.n(2), p.n(3)})); };
  c["loss/target_negative"] = c["loss/target_range"];
  c["loss/batch"] = [](const P& p) { cross_entropy(ones({p.n(0), p.n(1)}), zeros({p.n(2)}, kLong)); };
  c["loss/target_dtype"] = [](const P& p) { nll_loss(ones({p.n(0), p.n(1)}), zeros({p.n(2)})); };
  c["loss/target_float_1d"] = [](const P& p) { cross_entropy(ones({p.n(0), p.n(1)}), zeros({p.n(2)})); };
  c["loss/target_int32"] = [](const P& p) {
    cross_entropy(ones({p.n(0), p.n(1)}), zeros({p.n(2)}, {.dtype = DType::i32}));
  };
  c["loss/weight"] = [](const P& p) {
    cross_entropy(ones({p.n(0), p.n(1)}), tensor({p.n(2), p.n(3)}), {.weight = ones({p.n(4)})});
  };
  c["loss/smoothing"] = [](const P& p) {
    cross_entropy(ones({p.n(0), p.n(1)}), tensor({p.n(2), p.n(3)}), {.label_smoothing = p.x(4)});
  };
  c["loss/mse_shape"] = [](const P& p) { mse_loss(ones({p.n(0)}), ones({p.n(1)})); };
  c["loss/reduction"] = [](const P& p) { parse_reduction(p.s(0)); };
  c["mixed/mse"] = [](const P& p) { mse_loss(ones({p.n(0), p.n(1)}), ones({p.n(2), p.n(3)}, kMeta)); };
  c["mixed/cross_entropy"] = [](const P& p) { cross_entropy(ones({p.n(0), p.n(1)}, kMeta), zeros({p.n(2)}, kLong)); };
  c["warn/mse_broadcast"] = [](const P& p) { mse_loss(ones({p.n(0), p.n(1)}), ones({p.n(2)})); };
}

}  // namespace

void add_nn_error_cases(ErrorCases& cases) {
  add_linear_and_conv_cases(cases);
  add_pool_and_norm_cases(cases);
  add_loss_cases(cases);
}

void add_module_error_cases(ErrorCases& c) {
  c["module/exists_param"] = register_named<Kind::parameter>;
  c["module/exists_buffer"] = register_named<Kind::buffer>;
  c["module/exists_module"] = register_named<Kind::child>;
  c["module/param_dot"] = register_named<Kind::parameter>;
  c["module/param_empty"] = register_named<Kind::parameter>;
  c["module/buffer_dot"] = register_named<Kind::buffer>;
  c["module/module_dot"] = register_named<Kind::child>;
  c["module/module_empty"] = register_named<Kind::child>;
  c["module/list_forward"] = [](const P& p) { ModuleList({ReLU()}).call(ones({p.n(0)})); };
  c["module/dict_forward"] = [](const P& p) { ModuleDict({{p.s(0), ReLU()}}).call(ones({p.n(0)})); };
  c["module/seq_index"] = [](const P& p) { Sequential{ReLU()}[p.n(0)]; };
  c["module/seq_index_negative"] = c["module/seq_index"];
  c["module/list_index"] = [](const P& p) { ModuleList({ReLU()})[p.n(0)]; };
  c["module/dict_key"] = [](const P& p) { ModuleDict({{p.s(0), ReLU()}})[p.s(1)]; };
  c["module/get_submodule"] = [](const P& p) { MyModule().submodule(p.s(0)); };
  c["module/get_parameter"] = [](const P& p) { MyModule().parameter(p.s(0)); };
  c["module/get_parameter_type"] = [](const P& p) { MyModule().parameter(p.s(0)); };
  c["module/get_buffer"] = [](const P& p) { MyModule().buffer(p.s(0)); };
  c["module/to_device"] = [](const P& p) { MyModule().to(Device(p.s(0))); };
  c["module/flatten_dims"] = [](const P& p) { Flatten(p.n(0), p.n(1))(ones({p.n(2), p.n(3), p.n(4), p.n(5)})); };
  c["module/linear_zero_warn"] = [](const P& p) { Linear(p.n(0), p.n(1)); };
  c["dtype/parameter_int"] = [](const P& p) { Parameter{ones({p.n(0)}, kLong)}; };
  c["dtype/module_to_int"] = [](const P& p) { Linear(p.n(0), p.n(1)).to(DType::i64); };
  c["meta/module_to"] = [](const P& p) { Linear(p.n(0), p.n(1), {.device = Device("meta")}).to("cpu"); };
  c["autograd/modified_param"] = [](const P& p) {
    Linear l(p.n(0), p.n(1)), l2(p.n(2), p.n(3));
    const Tensor y = l2(l(ones({p.n(4), p.n(5)})));
    {
      const NoGradGuard no_grad;
      l2.weight.add_(p.n(6));
    }
    sum(y).backward();
  };
}

}  // namespace test
