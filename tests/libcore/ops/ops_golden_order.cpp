// Order, counting, products and views of ops.json.
#include "libcore/ops/blas.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/join.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/view.h"
#include "tests/libcore/ops/ops_golden.h"

namespace test {
namespace {

using core::Tensor;

template <class F>
OpCall one(F function) {
  return {[function](const OpCase& c) { return std::vector<Tensor>{function(c)}; }};
}

std::vector<Tensor> median(const OpCase& c) {
  if (!c.has("dim")) return {core::median(c.in[0])};
  const core::ValuesIndices both = core::median(c.in[0], c.integer("dim", 0));
  return {both.values, both.indices};
}

std::vector<Tensor> var_mean(const OpCase& c) {
  const core::VarMean both = core::var_mean(c.in[0], {.dims = c.shape("dim")});
  return {both.var, both.mean};
}

}  // namespace

void add_more_calls(OpCalls& calls) {
  calls["torch.clamp"] = {[clamp = calls.at("torch.clamp")](const OpCase& c) {
    return c.in.size() == 1 ? clamp.run(c) : std::vector<Tensor>{core::clamp(c.in[0], c.in[1], c.in[2])};
  }};
  calls["torch.median"] = {median};
  calls["torch.var_mean"] = {var_mean};
  calls["torch.logcumsumexp"] = one([](const OpCase& c) { return core::logcumsumexp(c.in[0], c.integer("dim", 0)); });
  calls["torch.bincount"] = one([](const OpCase& c) { return core::bincount(c.in[0]); });
  calls["torch.unique"] = one([](const OpCase& c) { return core::unique(c.in[0]); });
  calls["F.one_hot"] = one([](const OpCase& c) { return core::one_hot(c.in[0], c.integer("num_classes", -1)); });
  calls["torch.baddbmm"] = one([](const OpCase& c) {
    return core::baddbmm(c.in[0], c.in[1], c.in[2], c.scalar("beta", 1), c.scalar("alpha", 1));
  });
  calls["torch.addmv"] = one([](const OpCase& c) { return core::addmv(c.in[0], c.in[1], c.in[2]); });
  calls["torch.einsum"] = one([](const OpCase& c) { return core::einsum(text(c.args[0]), c.in); });
  calls["torch.repeat_interleave"] = one(
      [](const OpCase& c) { return core::repeat_interleave(c.in[0], c.integer("repeats", 1), c.integer("dim", 0)); });
  calls["list.torch.broadcast_tensors*"] = {[](const OpCase& c) { return core::broadcast_tensors(c.in); }};
  calls["list.torch.meshgrid*"] = {[](const OpCase& c) { return core::meshgrid(c.in, c.text("indexing", "ij")); }};
  calls["torch.diag"] = one([](const OpCase& c) { return core::diag(c.in[0]); });
}

}  // namespace test
