#include <cmath>

#include "libcore/base/error.h"
#include "libcore/ops/index.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/sort.h"
#include "tests/libcore/ops/ops_golden.h"

namespace test {
namespace {

using core::Tensor;

core::ReduceOptions reduce_options(const OpCase& c) {
  core::ReduceOptions options{.dims = c.shape("dim"), .keepdim = c.flag("keepdim")};
  if (c.has("dtype")) options.dtype = dtype(member(c.kwargs, "dtype"));
  return options;
}

std::optional<std::int64_t> dim_of(const OpCase& c) {
  return c.has("dim") ? std::optional(c.integer("dim", 0)) : std::nullopt;
}

core::VarOptions var_options(const OpCase& c) {
  double correction = c.has("unbiased") ? (c.flag("unbiased") ? 1 : 0) : c.number("correction", 1);
  return {.dims = c.shape("dim"), .correction = correction, .keepdim = c.flag("keepdim")};
}

core::NormOptions norm_options(const OpCase& c) {
  double p = 2;
  for (const char* key : {"p", "ord"}) {
    if (c.has(key) && !member(c.kwargs, key).is_string()) p = c.number(key, 2);
    if (c.has(key) && member(c.kwargs, key).is_string() && c.text(key, "") != "fro") p = c.number(key, 2);
  }
  return {.p = p, .dims = c.shape("dim"), .keepdim = c.flag("keepdim")};
}

std::vector<Tensor> both(const core::ValuesIndices& pair) {
  return {pair.values, pair.indices};
}

template <class All, class Along>
OpCall extreme(All all, Along along) {
  return {[=](const OpCase& c) {
            auto dim = dim_of(c);
            return dim ? both(along(c.in[0], *dim, c.flag("keepdim"))) : std::vector{all(c.in[0])};
          },
          true};
}

}  // namespace

void add_reduction_calls(OpCalls& calls) {
  using Reduce = Tensor (*)(const Tensor&, const core::ReduceOptions&);
  const std::pair<const char*, Reduce> all[] = {
      {"torch.sum", core::sum},   {"torch.mean", core::mean}, {"torch.prod", core::prod}, {"torch.amax", core::amax},
      {"torch.amin", core::amin}, {"torch.all", core::all},   {"torch.any", core::any}};
  for (auto [name, function] : all) {
    calls[name] = {[f = function](const OpCase& c) { return std::vector{f(c.in[0], reduce_options(c))}; }};
  }
  calls["torch.var"] = {[](const OpCase& c) { return std::vector{core::var(c.in[0], var_options(c))}; }};
  calls["torch.std"] = {[](const OpCase& c) { return std::vector{core::std(c.in[0], var_options(c))}; }};
  calls["torch.norm"] = {[](const OpCase& c) { return std::vector{core::norm(c.in[0], norm_options(c))}; }};
  calls["torch.linalg.vector_norm"] = calls["torch.norm"];
  calls["torch.logsumexp"] = {
      [](const OpCase& c) { return std::vector{core::logsumexp(c.in[0], c.shape("dim"), c.flag("keepdim"))}; }};
  calls["torch.max"] = extreme([](const Tensor& x) { return core::max(x); },
                               [](const Tensor& x, std::int64_t dim, bool keep) { return core::max(x, dim, keep); });
  calls["torch.min"] = extreme([](const Tensor& x) { return core::min(x); },
                               [](const Tensor& x, std::int64_t dim, bool keep) { return core::min(x, dim, keep); });
  calls["torch.argmax"] = {
      [](const OpCase& c) { return std::vector{core::argmax(c.in[0], dim_of(c), c.flag("keepdim"))}; }, true};
  calls["torch.argmin"] = {
      [](const OpCase& c) { return std::vector{core::argmin(c.in[0], dim_of(c), c.flag("keepdim"))}; }, true};
  calls["torch.cumsum"] = {[](const OpCase& c) { return std::vector{core::cumsum(c.in[0], c.integer("dim", 0))}; }};
  calls["torch.cumprod"] = {[](const OpCase& c) { return std::vector{core::cumprod(c.in[0], c.integer("dim", 0))}; }};
  calls["torch.sort"] = {
      [](const OpCase& c) { return both(core::sort(c.in[0], c.integer("dim", -1), c.flag("descending"))); }, true};
  calls["torch.argsort"] = {[](const OpCase& c) { return std::vector{core::argsort(c.in[0], c.integer("dim", -1))}; },
                            true};
  calls["torch.topk"] = {
      [](const OpCase& c) { return both(core::topk(c.in[0], c.integer("k", 1), c.integer("dim", -1))); }, true};
  calls["torch.nonzero"] = {[](const OpCase& c) { return std::vector{core::nonzero(c.in[0])}; }, true};
}

}  // namespace test
