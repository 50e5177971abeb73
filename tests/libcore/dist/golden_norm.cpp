#include "libcore/dist/collectives.h"
#include "libcore/dist/init.h"
#include "libcore/module/norm.h"
#include "tests/libcore/dist/golden_parts.h"
#include "tests/libcore/dist/rank_gpus.h"
#include "tests/libcore/module/module_spec.h"

namespace test {

std::string sync_batch_norm_difference(Json json, const GoldenArrays& arrays) {
  const auto rank = static_cast<std::size_t>(core::distributed::get_rank());
  const auto array = [&](const std::string& name) { return to_tensor(arrays.at(name)).to(rank_device()); };
  core::BatchNormOptions options{.dtype = dtype(member(json, "dtype"))};
  const Json momentum = member(json, "momentum");
  options.momentum = is_null(momentum) ? std::nullopt : std::optional(number(momentum));
  core::SyncBatchNorm norm(integer(member(json, "channels")), options);
  core::StateDict start;
  for (const auto [name, value] : member(json, "start").get_object()) start.set(std::string(name), array(text(value)));
  norm.to(rank_device());
  norm.load_state_dict(start);
  core::Tensor x = array(texts(member(json, "x"))[rank]);
  x.requires_grad_();
  const core::Tensor y = norm(x);
  y.backward(array(texts(member(json, "grad_output"))[rank]));
  std::string why = difference(y.detach(), arrays.at(texts(member(json, "output"))[rank]));
  if (!why.empty()) return "output: " + why;
  why = difference(x.grad(), arrays.at(texts(member(json, "input_grad"))[rank]));
  if (!why.empty()) return "gradient of the input: " + why;
  for (const auto [name, value] : member(json, "buffers_after").get_object()) {
    why = difference(norm.buffer(std::string(name)), arrays.at(text(value)));
    if (!why.empty()) return std::string(name) + ": " + why;
  }
  const std::pair<core::Tensor, const char*> sums[] = {{norm.weight.grad(), "weight_grad_sum"},
                                                       {norm.bias.grad(), "bias_grad_sum"}};
  for (const auto& [grad, key] : sums) {
    core::distributed::all_reduce(grad);
    why = difference(grad, arrays.at(text(member(json, key))));
    if (!why.empty()) return std::string(key) + ": " + why;
  }
  return "";
}

}  // namespace test
