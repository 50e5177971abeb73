// Operations that only half/ops.json has: three dimensions, and what PyTorch refuses in 16 bits. Numbers of 8 bits, and
// steps with a GradScaler.
#include <bit>
#include <charconv>
#include <cmath>
#include <memory>

#include "libcore/autograd/autograd.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pool.h"
#include "libcore/optim/adam.h"
#include "libcore/optim/adaptive.h"
#include "libcore/optim/averaging.h"
#include "libcore/optim/clip.h"
#include "libcore/optim/grad_scaler.h"
#include "libcore/optim/sgd.h"
#include "libcore/tensor/factory.h"
#include "tests/libcore/ops/ops_golden.h"

namespace test {
namespace {

using core::Tensor;

template <class F>
OpCall one(F function) {
  return {[function](const OpCase& c) { return std::vector<Tensor>{function(c)}; }};
}

void add_linalg(OpCalls& calls) {
  calls["torch.linalg.det"] = one([](const OpCase& c) { return core::linalg::det(c.in[0]); });
  calls["torch.linalg.inv"] = one([](const OpCase& c) { return core::linalg::inv(c.in[0]); });
  calls["torch.linalg.cholesky"] = one([](const OpCase& c) { return core::linalg::cholesky(c.in[0]); });
  calls["torch.linalg.qr"] = one([](const OpCase& c) { return core::linalg::qr(c.in[0]).q; });
  calls["torch.linalg.svdvals"] = one([](const OpCase& c) { return core::linalg::svdvals(c.in[0]); });
  calls["torch.linalg.eigvalsh"] = one([](const OpCase& c) { return core::linalg::eigvalsh(c.in[0]); });
  calls["torch.linalg.slogdet"] = one([](const OpCase& c) { return core::linalg::slogdet(c.in[0]).logabsdet; });
  calls["torch.linalg.matrix_rank"] = one([](const OpCase& c) { return core::linalg::matrix_rank(c.in[0]); });
  calls["torch.linalg.pinv"] = one([](const OpCase& c) { return core::linalg::pinv(c.in[0]); });
}

}  // namespace

void add_half_calls(OpCalls& calls) {
  add_linalg(calls);
  calls["F.conv_transpose3d"] = one([](const OpCase& c) {
    core::ConvTransposeOptions o;
    o.stride = c.shape("stride");
    return core::conv_transpose3d(c.in[0], c.in[1], c.in[2], o);
  });
  calls["F.max_pool3d"] = one([](const OpCase& c) { return core::max_pool3d(c.in[0], c.shape("kernel_size")); });
  calls["F.avg_pool3d"] = one([](const OpCase& c) {
    return core::avg_pool3d(c.in[0], c.shape("kernel_size"), {c.shape("stride"), c.shape("padding")});
  });
  calls["F.adaptive_avg_pool3d"] = one([](const OpCase& c) {
    return core::adaptive_avg_pool3d(c.in[0], core::AdaptiveSizes(3, c.integer("output_size", 1)));
  });
}

namespace {

std::vector<float> floats_of(Json words) {
  std::vector<float> result;
  for (const std::string& word : texts(words)) {
    std::uint32_t bits = 0;
    std::from_chars(word.data(), word.data() + word.size(), bits, 16);
    result.push_back(std::bit_cast<float>(bits));
  }
  return result;
}

bool same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

/// All 256 codes as numbers, and numbers of each type as codes.
std::string check_float8(core::DType dtype, Json of) {
  std::vector<std::uint8_t> all(256);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i);
  const auto values = core::from_bytes(std::as_bytes(std::span(all)), {256}, dtype).to(core::DType::f32);
  const std::vector<float> got = values.to_vector<float>(), wanted = floats_of(member(of, "values"));
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!same(got[i], wanted[i])) return "code " + std::to_string(i) + " is " + std::to_string(got[i]);
  }
  const std::vector<float> numbers = floats_of(member(of, "given"));
  const Tensor given = core::from_bytes(std::as_bytes(std::span(numbers)), {static_cast<std::int64_t>(numbers.size())},
                                        core::DType::f32);
  for (const auto& [from, key] :
       {std::pair{core::DType::f32, "codes"}, {core::DType::f16, "codes_f16"}, {core::DType::bf16, "codes_bf16"}}) {
    const Tensor codes = given.to(from).to(dtype).cpu();
    const auto* bytes = static_cast<const std::uint8_t*>(codes.raw_data());
    const std::vector<std::int64_t> codes_wanted = integers(member(of, key));
    for (std::size_t i = 0; i < codes_wanted.size(); ++i) {
      if (bytes[i] != codes_wanted[i] && !std::isnan(numbers[i])) {  // whose sign is the processor's choice
        return std::string(key) + ": " + std::to_string(numbers[i]) + " becomes " + std::to_string(bytes[i]) +
               ", not " + std::to_string(codes_wanted[i]);
      }
    }
  }
  return "";
}

std::unique_ptr<core::Optimizer> optimizer_of(const std::string& name, const std::vector<Tensor>& params,
                                              Json settings) {
  const double lr = number(member(settings, "lr"));
  if (name == "SGD") {
    return std::make_unique<core::SGD>(params,
                                       core::SGDOptions{.lr = lr, .momentum = number(member(settings, "momentum"))});
  }
  if (name == "Adam") return std::make_unique<core::Adam>(params, lr);
  if (name == "AdamW") return std::make_unique<core::AdamW>(params, lr);
  if (name == "RMSprop") return std::make_unique<core::RMSprop>(params, lr);
  if (name == "Adagrad") return std::make_unique<core::Adagrad>(params, lr);
  if (name == "Adamax") return std::make_unique<core::Adamax>(params, lr);
  if (name == "NAdam") return std::make_unique<core::NAdam>(params, lr);
  if (name == "RAdam") return std::make_unique<core::RAdam>(params, lr);
  if (name == "Rprop") return std::make_unique<core::Rprop>(params, lr);
  if (name == "ASGD") return std::make_unique<core::ASGD>(params, lr);
  if (name == "Adadelta") return std::make_unique<core::Adadelta>(params, lr);
  return nullptr;
}

/// One training as recorded: the scale, its tracker and the parameter after each step.
std::string check_scaler(Json training, Json settings) {
  const std::vector<double> start = numbers(member(settings, "start"));
  const Tensor weight = core::from_values(start).to(core::DType::f32).requires_grad_();
  const auto optimizer = optimizer_of(text(member(training, "optimizer")), {weight}, settings);
  if (!optimizer) return "no such optimizer";
  core::GradScaler scaler("cpu", {.init_scale = number(member(settings, "init_scale")),
                                  .growth_interval = integer(member(settings, "growth_interval"))});
  std::size_t at = 0;
  for (Json step : items(member(training, "steps"))) {
    const std::string where = "step " + std::to_string(at++) + ": ";
    optimizer->zero_grad();
    scaler.scale((weight * weight).sum() * number(member(step, "factor"))).backward();
    if (boolean(member(training, "clips"))) {
      scaler.unscale_(*optimizer);
      core::clip_grad_norm_({weight}, number(member(settings, "max_norm")));
    }
    scaler.step(*optimizer);
    scaler.update();
    if (scaler.get_scale() != number(member(step, "scale")))
      return where + "scale " + std::to_string(scaler.get_scale());
    if (scaler.state_dict().integer("_growth_tracker") != integer(member(step, "growth_tracker")))
      return where + "tracker";
    const std::vector<double> got = weight.detach().to_vector<double>(), wanted = numbers(member(step, "weight"));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!(std::abs(got[i] - wanted[i]) <= 1e-6 * (1 + std::abs(wanted[i])))) {
        return where + "weight " + std::to_string(got[i]) + ", not " + std::to_string(wanted[i]);
      }
    }
  }
  return "";
}

}  // namespace

void run_half_parts(const std::string& folder, GoldenRun& run) {
  const GoldenJson float8(*golden_file(folder + "/float8.json"));
  for (const auto field : member(float8.root(), "types").get_object()) {
    const std::string name(field.key);
    guarded(run, name, [&] {
      const std::string wrong = check_float8(core::parse_dtype(name), field.value);
      run.check(name, wrong.empty(), wrong);
    });
  }
  const GoldenJson scaler(*golden_file(folder + "/scaler.json"));
  for (Json training : items(member(scaler.root(), "runs"))) {
    const std::string id =
        "scaler_" + text(member(training, "optimizer")) + (boolean(member(training, "clips")) ? "_clips" : "");
    guarded(run, id, [&] {
      const std::string wrong = check_scaler(training, member(scaler.root(), "settings"));
      run.check(id, wrong.empty(), wrong);
    });
  }
}

}  // namespace test
