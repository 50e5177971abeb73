// Activations and dropout.
#include "libcore/module/dropout.h"
#include "libcore/module/linear.h"
#include "libcore/ops/dropout.h"
#include "tests/libcore/module/module_makers.h"

namespace test {
namespace {

using core::AnyModule;

template <class M>
AnyModule plain(Arguments&) {
  return M();
}
template <class M>
AnyModule in_place(Arguments& a) {
  return M(a.inplace(0));
}
template <class M>
AnyModule along(Arguments& a) {
  return M(a.integer(0, "dim"));
}

void add_numbered(Makers& makers) {
  makers["LeakyReLU"] = [](Arguments& a) -> AnyModule {
    const core::Scalar slope = a.scalar(0, "negative_slope", 0.01);
    return core::LeakyReLU(slope, a.inplace(1));
  };
  makers["ELU"] = [](Arguments& a) -> AnyModule {
    const core::Scalar alpha = a.scalar(0, "alpha", 1.0);
    return core::ELU(alpha, a.inplace(1));
  };
  makers["CELU"] = [](Arguments& a) -> AnyModule {
    const core::Scalar alpha = a.scalar(0, "alpha", 1.0);
    return core::CELU(alpha, a.inplace(1));
  };
  makers["Hardtanh"] = [](Arguments& a) -> AnyModule {
    const core::Scalar low = a.scalar(0, "min_val", -1.0), high = a.scalar(1, "max_val", 1.0);
    return core::Hardtanh(low, high, a.inplace(2));
  };
  makers["Threshold"] = [](Arguments& a) -> AnyModule {
    const core::Scalar limit = a.scalar(0, "threshold", 0), value = a.scalar(1, "value", 0);
    return core::Threshold(limit, value, a.inplace(2));
  };
  makers["Softplus"] = [](Arguments& a) -> AnyModule {
    const core::Scalar beta = a.scalar(0, "beta", 1.0);
    return core::Softplus(beta, a.scalar(1, "threshold", 20.0));
  };
  makers["Softshrink"] = [](Arguments& a) -> AnyModule { return core::Softshrink(a.scalar(0, "lambd", 0.5)); };
  makers["Hardshrink"] = [](Arguments& a) -> AnyModule { return core::Hardshrink(a.scalar(0, "lambd", 0.5)); };
  makers["GLU"] = [](Arguments& a) -> AnyModule { return core::GLU(a.integer(0, "dim", -1)); };
  makers["PReLU"] = [](Arguments& a) -> AnyModule { return core::PReLU(a.integer(0, "num_parameters", 1)); };
  makers["RReLU"] = [](Arguments&) -> AnyModule { return core::RReLU(); };
  makers["GELU"] = [](Arguments& a) -> AnyModule {
    const bool tanh = a.word(0, "approximate", "none") == "tanh";
    return core::GELU(tanh ? core::GeluForm::tanh : core::GeluForm::exact);
  };
}

template <class M>
AnyModule dropout(Arguments& a) {
  const double p = a.number(0, "p", 0.5);
  return M(p, {.inplace = a.flag(1, "inplace", false)});
}

}  // namespace

void add_activation_makers(Makers& makers) {
  makers["Identity"] = plain<core::Identity>;
  makers["ReLU"] = in_place<core::ReLU>;
  makers["ReLU6"] = in_place<core::ReLU6>;
  makers["SELU"] = in_place<core::SELU>;
  makers["SiLU"] = in_place<core::SiLU>;
  makers["Mish"] = in_place<core::Mish>;
  makers["Hardswish"] = in_place<core::Hardswish>;
  makers["Hardsigmoid"] = in_place<core::Hardsigmoid>;
  makers["Sigmoid"] = plain<core::Sigmoid>;
  makers["LogSigmoid"] = plain<core::LogSigmoid>;
  makers["Tanh"] = plain<core::Tanh>;
  makers["Softsign"] = plain<core::Softsign>;
  makers["Tanhshrink"] = plain<core::Tanhshrink>;
  makers["Softmax"] = along<core::Softmax>;
  makers["LogSoftmax"] = along<core::LogSoftmax>;
  makers["Softmin"] = along<core::Softmin>;
  makers["Dropout"] = dropout<core::Dropout>;
  makers["Dropout1d"] = dropout<core::Dropout1d>;
  makers["Dropout2d"] = dropout<core::Dropout2d>;
  makers["Dropout3d"] = dropout<core::Dropout3d>;
  makers["AlphaDropout"] = dropout<core::AlphaDropout>;
  makers["FeatureAlphaDropout"] = dropout<core::FeatureAlphaDropout>;
  add_numbered(makers);
}

}  // namespace test
