// Rows of reductions, scans, order and products.
#include "libcore/ops/blas.h"
#include "libcore/ops/distance.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/norm.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/autograd/gradcheck_cases.h"

namespace test {
namespace {

using Options = core::ReduceOptions;

/// Over all, along a dimension (kept or not), over two dimensions, of other strides and of a number.
void add_reduction(GradCases& cases, const std::string& name,
                   const std::function<Tensor(const Tensor&, const Options&)>& function, double from = -0.9,
                   double to = 1.1) {
  const auto with = [&](const Options& options) { return [=](In in) { return function(in[0], options); }; };
  cases.add(name, {irregular({2, 3}, from, to)}, with({}));
  cases.add(name + "/dim", {irregular({2, 3}, from, to)}, with({.dims = {1}}));
  cases.add(name + "/keepdim", {strided({2, 3}, from, to)}, with({.dims = {0}, .keepdim = true}));
  cases.add(name + "/dims", {irregular({2, 3, 2}, from, to)}, with({.dims = {0, -1}}));
  cases.add(name + "/scalar", {irregular({}, from, to)}, with({}));
}

void add_statistics(GradCases& cases) {
  for (const double correction : {0.0, 1.0}) {
    const auto with = [=](const Shape& dims, bool keepdim) {
      return core::VarOptions{.dims = dims, .correction = correction, .keepdim = keepdim};
    };
    const std::string tail = correction == 0 ? "/population" : "/sample";
    cases.add("var" + tail, {irregular({2, 3})}, [=](In in) { return core::var(in[0], with({}, false)); });
    cases.add("var/dims" + tail, {strided({2, 3, 2})}, [=](In in) { return core::var(in[0], with({0, 2}, true)); });
    cases.add("std" + tail, {irregular({2, 3})}, [=](In in) { return core::std(in[0], with({}, false)); });
    cases.add("std/dims" + tail, {strided({2, 3, 2})}, [=](In in) { return core::std(in[0], with({1}, false)); });
  }
  cases.many("var_mean", {irregular({2, 3})}, [](In in) {
    auto both = core::var_mean(in[0], {.dims = {1}});
    return std::vector{both.var, both.mean};
  });
  cases.many("std_mean", {irregular({2, 3})}, [](In in) {
    auto both = core::std_mean(in[0], {.dims = {1}, .keepdim = true});
    return std::vector{both.std, both.mean};
  });
  cases.add("cov", {irregular({2, 4})}, [](In in) { return core::cov(in[0]); });
  cases.add("corrcoef", {irregular({2, 4})}, [](In in) { return core::corrcoef(in[0]); });
}

}  // namespace

void add_reduction_cases(GradCases& cases) {
  add_reduction(cases, "sum", [](const Tensor& x, const Options& o) { return core::sum(x, o); });
  add_reduction(cases, "mean", [](const Tensor& x, const Options& o) { return core::mean(x, o); });
  add_reduction(cases, "prod", [](const Tensor& x, const Options& o) { return core::prod(x, o); });
  add_reduction(cases, "amax", [](const Tensor& x, const Options& o) { return core::amax(x, o); });
  add_reduction(cases, "amin", [](const Tensor& x, const Options& o) { return core::amin(x, o); });
  add_reduction(cases, "nansum", [](const Tensor& x, const Options& o) { return core::nansum(x, o); });
  add_reduction(cases, "nanmean", [](const Tensor& x, const Options& o) { return core::nanmean(x, o); });
  for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, HUGE_VAL}) {
    add_reduction(cases, "norm/" + std::to_string(p), [=](const Tensor& x, const Options& o) {
      return core::norm(x, {.p = p, .dims = o.dims, .keepdim = o.keepdim});
    });
  }
  add_reduction(cases, "logsumexp", [](const Tensor& x, const Options& o) {
    return core::logsumexp(x, o.dims.empty() && x.dim() > 0 ? Shape{0} : o.dims, o.keepdim);
  });
  cases.add("prod/zeros",
            {core::tensor({{0.0, 2.0, 3.0}, {0.0, 0.0, 5.0}}, {.dtype = core::DType::f64}).requires_grad_()},
            [](In in) { return core::prod(in[0], {.dims = {1}}); });
  cases.add("sum_to", {irregular({2, 3})}, [](In in) { return core::sum_to(in[0], {3}); });
  cases.add("renorm", {irregular({3, 2}, 0.1, 2)}, [](In in) { return core::renorm(in[0], 2, 0, 1.1); });
  add_statistics(cases);
  for (const std::int64_t dim : {0, 1}) {
    const std::string tail = "/" + std::to_string(dim);
    cases.add("cumsum" + tail, {strided({2, 3})}, [=](In in) { return core::cumsum(in[0], dim); });
    cases.add("cumprod" + tail, {strided({2, 3})}, [=](In in) { return core::cumprod(in[0], dim); });
    cases.add("logcumsumexp" + tail, {strided({2, 3})}, [=](In in) { return core::logcumsumexp(in[0], dim); });
  }
  cases.add("cumprod/zeros", {core::tensor({2.0, 0.0, 3.0, 0.0}, {.dtype = core::DType::f64}).requires_grad_()},
            [](In in) { return core::cumprod(in[0], 0); });
  cases.add("diff", {irregular({2, 4})}, [](In in) { return core::diff(in[0], {.n = 2}); });
  cases.add("diff/ends", {irregular({4}), irregular({1}), irregular({2})},
            [](In in) { return core::diff(in[0], {.prepend = in[1], .append = in[2]}); });
  cases.add("trapezoid", {irregular({2, 4}), irregular({4}, 0, 3)},
            [](In in) { return core::trapezoid(in[0], {.x = in[1]}); });
  cases.add("cumulative_trapezoid", {irregular({2, 4})},
            [](In in) { return core::cumulative_trapezoid(in[0], {.dx = 0.3}); });
}

void add_order_cases(GradCases& cases) {
  const auto pick = [&cases](const std::string& name,
                             const std::function<core::ValuesIndices(const Tensor&)>& function) {
    cases.add(name, {irregular({3, 4})}, [=](In in) { return function(in[0]).values; });
    cases.add(name + "/strided", {strided({3, 4})}, [=](In in) { return function(in[0]).values; });
  };
  pick("max", [](const Tensor& x) { return core::max(x, 1); });
  pick("min", [](const Tensor& x) { return core::min(x, 0, true); });
  cases.add("max/all", {irregular({2, 3})}, [](In in) { return core::max(in[0]); });
  cases.add("min/all", {irregular({})}, [](In in) { return core::min(in[0]); });
  pick("sort", [](const Tensor& x) { return core::sort(x, 0, true); });
  pick("topk", [](const Tensor& x) { return core::topk(x, 2, 1); });
  pick("median", [](const Tensor& x) { return core::median(x, 1); });
  pick("nanmedian", [](const Tensor& x) { return core::nanmedian(x, 0, true); });
  cases.add("median/all", {irregular({2, 3})}, [](In in) { return core::median(in[0]); });
  cases.add("nanmedian/all", {irregular({2, 3})}, [](In in) { return core::nanmedian(in[0]); });
  pick("kthvalue", [](const Tensor& x) { return core::kthvalue(x, 2, 1); });
  pick("mode", [](const Tensor& x) { return core::mode(x, 1, true); });
  pick("cummax", [](const Tensor& x) { return core::cummax(x, 1); });
  pick("cummin", [](const Tensor& x) { return core::cummin(x, 0); });
  cases.many("aminmax", {irregular({2, 3})}, [](In in) {
    auto both = core::aminmax(in[0], 1);
    return std::vector{both.min, both.max};
  });
  cases.many("aminmax/all", {strided({2, 3})}, [](In in) {
    auto both = core::aminmax(in[0]);
    return std::vector{both.min, both.max};
  });
  cases.add("quantile", {irregular({3, 4})}, [](In in) { return core::quantile(in[0], 0.3, {.dim = 1}); });
  cases.add("quantile/several", {strided({3, 4})}, [](In in) {
    return core::quantile(in[0], core::tensor({0.2, 0.9}, {.dtype = core::DType::f64}), {.dim = 0, .keepdim = true});
  });
  cases.add("quantile/all", {irregular({5})},
            [](In in) { return core::quantile(in[0], 0.4, {.interpolation = "midpoint"}); });
  cases.add("nanquantile", {irregular({3, 4})}, [](In in) { return core::nanquantile(in[0], 0.6); });
}

void add_product_cases(GradCases& cases) {
  const auto two = [&cases](const std::string& name, const Shape& a, const Shape& b,
                            const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
    cases.add(name, {irregular(a), irregular(b, -0.7, 1.3)}, [=](In in) { return f(in[0], in[1]); });
  };
  two("matmul", {2, 3}, {3, 2}, core::matmul);
  two("matmul/vectors", {3}, {3}, core::matmul);
  two("matmul/vector_matrix", {3}, {3, 2}, core::matmul);
  two("matmul/matrix_vector", {2, 3}, {3}, core::matmul);
  two("matmul/batches", {2, 1, 2, 3}, {2, 3, 2}, core::matmul);
  two("matmul/batch_matrix", {2, 2, 3}, {3, 2}, core::matmul);
  two("matmul/batch_vector", {2, 2, 3}, {3}, core::matmul);
  cases.add("matmul/strided", {strided({2, 3}), strided({3, 2})}, [](In in) { return core::matmul(in[0], in[1]); });
  two("mm", {2, 3}, {3, 4}, core::mm);
  two("bmm", {2, 2, 3}, {2, 3, 2}, core::bmm);
  two("mv", {2, 3}, {3}, core::mv);
  two("dot", {3}, {3}, core::dot);
  two("vdot", {3}, {3}, core::vdot);
  two("outer", {2}, {3}, core::outer);
  two("inner", {2, 3}, {2, 3}, core::inner);
  two("kron", {2}, {2, 3}, core::kron);
  two("cross", {2, 3}, {2, 3}, [](const Tensor& a, const Tensor& b) { return core::cross(a, b); });
  two("tensordot", {2, 3, 2}, {3, 2, 2}, [](const Tensor& a, const Tensor& b) {
    return core::tensordot(a, b, {1, 0}, {0, 2});
  });
  two("tensordot/count", {2, 3}, {3, 2}, [](const Tensor& a, const Tensor& b) { return core::tensordot(a, b, 1); });
  two("einsum", {2, 3}, {3, 2}, [](const Tensor& a, const Tensor& b) { return core::einsum("ij,jk->ki", {a, b}); });
  two("einsum/dots", {2, 2, 3}, {3}, [](const Tensor& a, const Tensor& b) {
    return core::einsum("...i,i->...", {a, b});
  });
  const auto three = [&cases](const std::string& name, const Shape& c, const Shape& a, const Shape& b,
                              const std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>& f) {
    cases.add(name, {irregular(c), irregular(a), irregular(b, -0.7, 1.3)},
              [=](In in) { return f(in[0], in[1], in[2]); });
  };
  using T = const Tensor&;
  three("addmm", {4}, {2, 3}, {3, 4}, [](T c, T a, T b) { return core::addmm(c, a, b, 0.7, 1.2); });
  three("addmv", {2}, {2, 3}, {3}, [](T c, T a, T b) { return core::addmv(c, a, b, 0.7, 1.2); });
  three("baddbmm", {2, 2, 2}, {2, 2, 3}, {2, 3, 2}, [](T c, T a, T b) { return core::baddbmm(c, a, b, 0.7, 1.2); });
  three("addbmm", {2, 2}, {2, 2, 3}, {2, 3, 2}, [](T c, T a, T b) { return core::addbmm(c, a, b, 0.7, 1.2); });
  three("addr", {2, 3}, {2}, {3}, [](T c, T a, T b) { return core::addr(c, a, b, 0.7, 1.2); });
  three("chain_matmul", {2, 3}, {3, 2}, {2, 2}, [](T c, T a, T b) { return core::chain_matmul({c, a, b}); });
  cases.add("matrix_power", {irregular({2, 2})}, [](In in) { return core::matrix_power(in[0], 3); });
  cases.add("trace", {irregular({2, 3})}, [](In in) { return core::trace(in[0]); });
  for (const Shape& sizes : {Shape{3}, Shape{2, 3}, Shape{2, 2, 3}}) {
    const std::string tail = "/" + std::to_string(sizes.size());
    cases.add("linear" + tail, {irregular(sizes), irregular({2, 3}), irregular({2})},
              [](In in) { return core::linear(in[0], in[1], in[2]); });
    cases.add("linear/no_bias" + tail, {irregular(sizes), irregular({2, 3})},
              [](In in) { return core::linear(in[0], in[1]); });
  }
  two("cdist", {2, 3}, {4, 3}, [](T a, T b) { return core::cdist(a, b); });
  two("cdist/3", {2, 3}, {4, 3}, [](T a, T b) { return core::cdist(a, b, 3); });
  two("cosine_similarity", {2, 3}, {2, 3}, [](T a, T b) { return core::cosine_similarity(a, b); });
  two("pairwise_distance", {2, 3}, {2, 3}, [](T a, T b) { return core::pairwise_distance(a, b); });
  cases.add("bilinear", {irregular({2, 3}), irregular({2, 2}), irregular({2, 3, 2}), irregular({2})},
            [](In in) { return core::bilinear(in[0], in[1], in[2], in[3]); });
  cases.add("normalize", {irregular({2, 3})}, [](In in) { return core::normalize(in[0]); });
}

}  // namespace test
