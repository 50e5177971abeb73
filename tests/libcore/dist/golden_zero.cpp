#include "tests/libcore/dist/golden_zero.h"

#include <algorithm>

#include "libcore/dist/init.h"
#include "libcore/dist/zero_redundancy_optimizer.h"
#include "tests/libcore/module/module_spec.h"
#include "tests/libcore/optim/optim_spec.h"

namespace test {
namespace {

namespace dist = core::distributed;
using dist::ZeroRedundancyOptimizer;

std::string state_difference(const core::ParamState& ours, Json wanted, const GoldenArrays& arrays) {
  std::size_t count = 0;
  for (const auto [name, array] : wanted.get_object()) {
    ++count;
    const auto found = std::find_if(ours.begin(), ours.end(), [&](const auto& each) { return each.first == name; });
    if (found == ours.end()) return "no " + std::string(name);
    const std::string why = difference(found->second, arrays.at(text(array)));
    if (!why.empty()) return std::string(name) + ": " + why;
  }
  return count == ours.size() ? "" : "another number of tensors";
}

std::string zero_difference(ZeroRedundancyOptimizer& zero, const std::vector<core::Tensor>& params, Json json,
                            const GoldenArrays& arrays) {
  const int rank = dist::get_rank();
  const std::vector<Json> partition = items(member(json, "partition"));
  for (std::size_t r = 0; r < partition.size(); ++r) {
    if (zero.partition()[r] != integers(partition[r])) return "rank " + std::to_string(r) + " has another share";
  }
  std::vector<std::int64_t> with_state;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (!zero.local()->state_of(params[i]).empty()) with_state.push_back(static_cast<std::int64_t>(i));
  }
  if (with_state != integers(items(member(json, "local_state"))[static_cast<std::size_t>(rank)]))
    return "another local state";
  zero.consolidate_state_dict();
  if (rank != 0) return "";
  const core::OptimizerState state = zero.state_dict();
  const Json wanted = member(json, "consolidated");
  for (const auto& [number, tensors] : state.state) {
    const std::string why = state_difference(tensors, member(wanted, std::to_string(number)), arrays);
    if (!why.empty()) return "state " + std::to_string(number) + ": " + why;
  }
  return state.state.size() == wanted.get_object().size() ? "" : "another number of states";
}

}  // namespace

GoldenOptimizer make_zero_optimizer(const std::string& name, const std::vector<core::Tensor>& params, Json options) {
  auto zero = std::make_shared<ZeroRedundancyOptimizer>(params, [&](std::vector<core::ParamGroup> groups) {
    std::unique_ptr<core::Optimizer> made = make_optimizer(name, std::move(groups), options);
    if (!made) throw std::runtime_error("skip: optimizer " + name);
    return made;
  });
  return {
      [zero] { zero->step(); }, [zero] { zero->zero_grad(); },
      [zero, params](Json json, const GoldenArrays& arrays) { return zero_difference(*zero, params, json, arrays); }};
}

}  // namespace test
