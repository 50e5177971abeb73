// Rows of views, joining, picking and operations in place.
#include "libcore/ops/activation.h"
#include "libcore/ops/complex.h"
#include "libcore/ops/copy.h"
#include "libcore/ops/index.h"
#include "libcore/ops/join.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/sparse.h"
#include "libcore/ops/view.h"
#include "libcore/optim/options.h"
#include "libcore/parallel/comm.h"
#include "libcore/parallel/scatter_gather.h"
#include "libcore/tensor/memory_format.h"
#include "libcore/tensor/print.h"
#include "tests/libcore/autograd/gradcheck_cases.h"

namespace test {

using core::Slice;

void add_view_cases(GradCases& cases) {
  const auto view = [&cases](const std::string& name, const std::function<Tensor(const Tensor&)>& f) {
    cases.add(name, {irregular({2, 3, 2})}, [=](In in) { return f(in[0]); });
    cases.add(name + "/strided", {irregular({3, 2, 2}).detach().transpose(0, 1).detach().requires_grad_()},
              [=](In in) { return f(in[0]); });
  };
  cases.add("view", {irregular({2, 3})}, [](In in) { return in[0].view({3, 2}); });
  view("reshape", [](const Tensor& x) { return x.reshape({3, 4}); });
  view("flatten", [](const Tensor& x) { return x.flatten(); });
  view("ravel", [](const Tensor& x) { return core::ravel(x); });
  view("unflatten", [](const Tensor& x) { return x.unflatten(1, {3, 1}); });
  view("unsqueeze", [](const Tensor& x) { return x.unsqueeze(1); });
  view("transpose", [](const Tensor& x) { return x.transpose(0, 2); });
  view("swapaxes", [](const Tensor& x) { return core::swapaxes(x, 0, 1); });
  view("matrix_transpose", [](const Tensor& x) { return core::matrix_transpose(x); });
  view("permute", [](const Tensor& x) { return x.permute({2, 0, 1}); });
  view("movedim", [](const Tensor& x) { return core::movedim(x, {0, 1}, {2, 0}) + x.movedim(0, 2).transpose(0, 0); });
  view("select", [](const Tensor& x) { return x.select(1, -1); });
  view("operator[]", [](const Tensor& x) { return x[1]; });
  view("slice", [](const Tensor& x) { return x.slice(1, 0, 3, 2); });
  view("narrow", [](const Tensor& x) { return x.narrow(1, 1, 2); });
  view("diagonal", [](const Tensor& x) { return x.diagonal(1, 0, 1); });
  view("unfold", [](const Tensor& x) { return x.unfold(1, 2, 1); });
  view("contiguous", [](const Tensor& x) { return x.contiguous(); });
  view("clone", [](const Tensor& x) { return x.clone(); });
  view("index/views", [](const Tensor& x) {
    return core::index(x, {Slice{1, {}}, core::NewAxis(), core::Ellipsis(), 0});
  });
  view("to", [](const Tensor& x) { return x.to({.device = {}, .dtype = {}, .copy = true}); });
  cases.add("contiguous/channels_last", {irregular({1, 2, 2, 3})},
            [](In in) { return in[0].contiguous(core::MemoryFormat::channels_last); });
  cases.add("as_strided", {irregular({2, 3})}, [](In in) { return in[0].as_strided({2, 2}, {1, 2}, 1); });
  cases.add("expand", {irregular({2, 1})}, [](In in) { return in[0].expand({3, 2, 2}); });
  cases.add("expand_as", {irregular({1})}, [](In in) { return in[0].expand_as(core::ones({2, 2})); });
  cases.add("broadcast_to", {irregular({2, 1})}, [](In in) { return core::broadcast_to(in[0], {2, 3}); });
  cases.add("squeeze", {irregular({2, 1, 3})}, [](In in) { return in[0].squeeze(); });
  cases.add("squeeze/dim", {irregular({2, 1, 3})}, [](In in) { return in[0].squeeze(1); });
  cases.add("squeeze/dims", {irregular({1, 2, 1})}, [](In in) { return core::squeeze(in[0], {0, 2}); });
  cases.add("t", {irregular({2, 3})}, [](In in) { return in[0].t(); });
  cases.add("view_as", {irregular({2, 3})}, [](In in) { return in[0].view_as(core::ones({6})); });
  cases.add("type_as", {irregular({2})},
            [](In in) { return in[0].type_as(core::ones({}, {.dtype = core::DType::f64})); });
  for (const auto& [name, f] : std::initializer_list<std::pair<const char*, Tensor (*)(const Tensor&)>>{
           {"atleast_1d", core::atleast_1d}, {"atleast_2d", core::atleast_2d}, {"atleast_3d", core::atleast_3d}}) {
    cases.add(name, {irregular({2})}, [f = f](In in) { return f(in[0]); });
    cases.add(name + std::string("/scalar"), {irregular({})}, [f = f](In in) { return f(in[0]); });
  }
}

namespace {

/// Of views, and of the parts into which views cut.
void add_copies_of_views(GradCases& cases) {
  const auto copy = [&cases](const std::string& name, const std::function<Tensor(const Tensor&)>& f) {
    cases.add(name, {strided({2, 3, 2})}, [=](In in) { return f(in[0]); });
  };
  copy("alias_copy", [](const Tensor& x) { return core::alias_copy(x); });
  copy("as_strided_copy", [](const Tensor& x) { return core::as_strided_copy(x.contiguous(), {3, 2}, {2, 3}, 1); });
  copy("diagonal_copy", [](const Tensor& x) { return core::diagonal_copy(x, 1, 0, 1); });
  copy("expand_copy", [](const Tensor& x) { return core::expand_copy(x, {2, 2, 3, 2}); });
  copy("permute_copy", [](const Tensor& x) { return core::permute_copy(x, {2, 0, 1}); });
  copy("select_copy", [](const Tensor& x) { return core::select_copy(x, 1, -1); });
  copy("slice_copy", [](const Tensor& x) { return core::slice_copy(x, 1, 0, 3, 2); });
  copy("squeeze_copy", [](const Tensor& x) { return core::squeeze_copy(x.unsqueeze(0)); });
  copy("unsqueeze_copy", [](const Tensor& x) { return core::unsqueeze_copy(x, 1); });
  copy("t_copy", [](const Tensor& x) { return core::t_copy(x.select(0, 1)); });
  copy("transpose_copy", [](const Tensor& x) { return core::transpose_copy(x, 0, 2); });
  copy("unfold_copy", [](const Tensor& x) { return core::unfold_copy(x, 1, 2, 1); });
  copy("view_copy", [](const Tensor& x) { return core::view_copy(x.contiguous(), {4, 3}); });
  copy("view_as_real_copy",
       [](const Tensor& x) { return core::view_as_real_copy(core::view_as_complex(x.contiguous())); });
  copy("view_as_complex_copy",
       [](const Tensor& x) { return core::view_as_real(core::view_as_complex_copy(x.contiguous())); });
  cases.many("split_copy", {irregular({5, 2})}, [](In in) { return core::split_copy(in[0], 2); });
  cases.many("split_with_sizes_copy", {irregular({2, 5})}, [](In in) {
    return core::split_with_sizes_copy(in[0], {2, 3}, 1);
  });
  cases.many("unbind_copy", {irregular({2, 3})}, [](In in) { return core::unbind_copy(in[0], 1); });
}

}  // namespace

void add_joining_cases(GradCases& cases) {
  const auto join = [&cases](const std::string& name, Tensor (*f)(const std::vector<Tensor>&)) {
    cases.add(name, {irregular({2, 3}), strided({2, 3})}, [=](In in) { return f({in[0], in[1]}); });
    cases.add(name + "/vectors", {irregular({3}), irregular({3})}, [=](In in) { return f({in[0], in[1]}); });
  };
  join("hstack", core::hstack);
  join("vstack", core::vstack);
  join("dstack", core::dstack);
  join("column_stack", core::column_stack);
  join("block_diag", core::block_diag);
  cases.add("cat", {irregular({2, 3}), strided({2, 2}), irregular({0})}, [](In in) {
    return core::cat({in[0], in[1], in[2]}, 1);
  });
  cases.add("stack", {irregular({2, 3}), strided({2, 3})}, [](In in) { return core::stack({in[0], in[1]}, 1); });
  cases.add("cartesian_prod", {irregular({2}), irregular({3})}, [](In in) {
    return core::cartesian_prod({in[0], in[1]});
  });
  cases.add("combinations", {irregular({3})}, [](In in) { return core::combinations(in[0], 2, true); });
  cases.many("split", {irregular({5, 2})}, [](In in) { return in[0].split(2); });
  cases.many("split/sizes", {irregular({2, 5})}, [](In in) { return in[0].split(Shape{2, 3}, 1); });
  cases.many("chunk", {strided({5, 2})}, [](In in) { return in[0].chunk(3); });
  cases.many("unbind", {irregular({2, 3})}, [](In in) { return in[0].unbind(1); });
  cases.many("tensor_split", {irregular({5, 2})}, [](In in) { return core::tensor_split(in[0], 3); });
  cases.many("tensor_split/at", {irregular({2, 5})}, [](In in) { return core::tensor_split(in[0], Shape{1, 3}, 1); });
  cases.many("hsplit", {irregular({2, 4})}, [](In in) { return core::hsplit(in[0], 2); });
  cases.many("dsplit", {irregular({2, 1, 4})}, [](In in) { return core::dsplit(in[0], 2); });
  cases.add("narrow_copy", {strided({3, 4})}, [](In in) { return core::narrow_copy(in[0], 1, 1, 2); });
  add_copies_of_views(cases);
  cases.add("sum_to_size", {strided({2, 3, 4})}, [](In in) { return core::sum_to_size(in[0], {3, 1}); });
  cases.many("vsplit", {irregular({4, 2})}, [](In in) { return core::vsplit(in[0], 2); });
  cases.many("broadcast_tensors", {irregular({2, 1}), irregular({3})}, [](In in) {
    return core::broadcast_tensors({in[0], in[1]});
  });
  cases.many("meshgrid", {irregular({2}), irregular({3})}, [](In in) { return core::meshgrid({in[0], in[1]}, "xy"); });
  const auto one = [&cases](const std::string& name, const Shape& sizes,
                            const std::function<Tensor(const Tensor&)>& f) {
    cases.add(name, {irregular(sizes)}, [=](In in) { return f(in[0]); });
  };
  one("repeat", {2, 3}, [](const Tensor& x) { return x.repeat({2, 1, 2}); });
  one("repeat_interleave", {2, 3}, [](const Tensor& x) { return core::repeat_interleave(x, 2, 1); });
  one("repeat_interleave/tensor", {2, 3}, [](const Tensor& x) {
    return core::repeat_interleave(x, core::tensor({2, 0, 1}), 1);
  });
  one("flip", {2, 3}, [](const Tensor& x) { return core::flip(x, {0, 1}); });
  one("fliplr", {2, 3}, core::fliplr);
  one("flipud", {2, 3}, core::flipud);
  one("roll", {2, 3}, [](const Tensor& x) { return core::roll(x, {1, 2}, {0, 1}) + core::roll(x, {2}); });
  for (const int k : {0, 1, 2, 3})
    one("rot90/" + std::to_string(k), {2, 3}, [=](const Tensor& x) { return core::rot90(x, k); });
  one("tril", {3, 3}, [](const Tensor& x) { return core::tril(x, 1); });
  one("triu", {2, 3, 3}, [](const Tensor& x) { return core::triu(x, -1); });
  one("pad_constant", {2, 3}, [](const Tensor& x) { return core::pad_constant(x, {1, 2, -1, 0}, 5); });
  one("diag", {3}, [](const Tensor& x) { return core::diag(x, 1); });
  one("diag/matrix", {3, 2}, [](const Tensor& x) { return core::diag(x, -1); });
  one("diag_embed", {2, 3}, [](const Tensor& x) { return core::diag_embed(x, -1, 0, 2); });
  one("diagflat", {2, 2}, [](const Tensor& x) { return core::diagflat(x); });
  one("vander", {3}, [](const Tensor& x) { return core::vander(x); });
}

void add_picking_cases(GradCases& cases) {
  const Tensor rows = core::tensor({2, 0, 2}), at = core::tensor({{0, 2}, {1, 1}, {2, 0}});
  const Tensor mask = core::tensor({{true, false, true}, {false, true, true}, {false, false, true}});
  const auto one = [&cases](const std::string& name, const std::function<Tensor(const Tensor&)>& f) {
    cases.add(name, {irregular({3, 3})}, [=](In in) { return f(in[0]); });
    cases.add(name + "/strided", {strided({3, 3})}, [=](In in) { return f(in[0]); });
  };
  one("index_select", [=](const Tensor& x) { return core::index_select(x, 1, rows); });
  one("gather", [=](const Tensor& x) { return core::gather(x, 1, at); });
  one("take_along_dim", [=](const Tensor& x) { return core::take_along_dim(x, at, 1); });
  one("take", [=](const Tensor& x) { return core::take(x, core::tensor({{0, 8}, {-2, 0}})); });
  one("masked_select", [=](const Tensor& x) { return core::masked_select(x, mask); });
  one("index", [=](const Tensor& x) { return core::index(x, {rows, core::tensor({1, 1, -1})}); });
  one("index/mask", [=](const Tensor& x) { return core::index(x, {mask}); });
  one("index/apart", [=](const Tensor& x) { return core::index(x.unsqueeze(1), {rows, Slice{}, rows}); });
  one("index_fill", [=](const Tensor& x) { return core::index_fill(x, 0, core::tensor({2, 0}), 3); });
  one("scatter/number", [=](const Tensor& x) { return core::scatter(x, 1, at, 3); });
  const auto two = [&cases](const std::string& name, const Shape& from,
                            const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
    cases.add(name, {irregular({3, 3}), strided(from, -0.7, 1.6)}, [=](In in) { return f(in[0], in[1]); });
  };
  using T = const Tensor&;
  two("scatter", {3, 2}, [=](T x, T y) { return core::scatter(x, 1, core::tensor({{0, 2}, {1, 0}, {2, 0}}), y); });
  two("scatter_add", {3, 2}, [=](T x, T y) { return core::scatter_add(x, 1, at, y); });
  for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
    for (const bool self : {true, false}) {
      two(std::string("scatter_reduce/") + reduce + (self ? "" : "_alone"), {3, 2},
          [=](T x, T y) { return core::scatter_reduce(x, 1, at, y, reduce, self); });
    }
  }
  for (const char* reduce : {"sum", "mean", "max", "min", "prod"}) {
    cases.add(std::string("segment_reduce/") + reduce, {irregular({5, 2})}, [=](In in) {
      return core::segment_reduce(in[0], reduce, {.lengths = core::tensor({2, 3})});
    });
  }
  two("index_add", {3, 3}, [=](T x, T y) { return core::index_add(x, 1, rows, y); });
  two("index_copy", {3, 2}, [=](T x, T y) { return core::index_copy(x, 1, core::tensor({2, 0}), y); });
  two("masked_scatter", {3, 3}, [=](T x, T y) { return core::masked_scatter(x, mask, y); });
  two("put", {2, 2}, [=](T x, T y) { return core::put(x, core::tensor({{0, 8}, {-2, 3}}), y); });
  two("put/accumulate", {2, 2}, [=](T x, T y) { return core::put(x, core::tensor({{0, 8}, {0, 3}}), y, true); });
  two("index_put", {1, 3}, [=](T x, T y) { return core::index_put(x, {core::tensor({0, 2})}, y); });
  two("index_put/accumulate", {1, 3}, [=](T x, T y) { return core::index_put(x, {rows}, y, true); });
  two("index_put/view", {1, 2}, [=](T x, T y) { return core::index_put(x, {core::tensor({0, 2}), Slice{1, {}}}, y); });
  two("select_scatter", {1, 3}, [=](T x, T y) { return core::select_scatter(x, y[0], 1, 2); });
  two("slice_scatter", {2, 3}, [=](T x, T y) { return core::slice_scatter(x, y, {.start = 0, .step = 2}); });
  two("as_strided_scatter", {2, 2}, [=](T x, T y) { return core::as_strided_scatter(x, y, {2, 2}, {1, 2}); });
  const Tensor onto = core::tensor({0, 1, 0});
  for (const char* reduce : {"prod", "mean", "amax", "amin"}) {
    two(std::string("index_reduce/") + reduce, {3, 3},
        [=](T x, T y) { return core::index_reduce(x, 0, onto, y, reduce); });
  }
  two("diagonal_scatter", {1, 2}, [=](T x, T y) { return core::diagonal_scatter(x, y[0], 1); });
}

void add_in_place_cases(GradCases& cases) {
  const auto change = [&cases](const std::string& name, const std::function<void(const Tensor&, const Tensor&)>& f) {
    cases.add("in_place/" + name, {irregular({3, 2}), irregular({2}, 0.4, 1.9)}, [=](In in) {
      const Tensor x = in[0] * 1;
      f(x, in[1]);
      return x;
    });
    // Through a view of a part: the rest keeps its history.
    cases.add("in_place_view/" + name, {irregular({3, 2}), irregular({2}, 0.4, 1.9)}, [=](In in) {
      const Tensor x = in[0] * 1;
      f(x.slice(0, 1), in[1]);
      return x * x;
    });
  };
  using T = const Tensor&;
  change("copy_", [](T x, T y) { x.copy_(y); });
  change("fill_", [](T x, T) { x.fill_(2); });
  change("zero_", [](T x, T) { x.zero_(); });
  change("add_", [](T x, T y) { x.add_(y, 2).add_(1); });
  change("sub_", [](T x, T y) { x.sub_(y, 2).sub_(1); });
  change("mul_", [](T x, T y) { x.mul_(y).mul_(3); });
  change("div_", [](T x, T y) { x.div_(y).div_(3); });
  change("pow_", [](T x, T y) { core::pow_(x.pow_(2).add_(0.3), y); });
  change("addcmul_", [](T x, T y) { x.addcmul_(y, y, 0.5); });
  change("addcdiv_", [](T x, T y) { x.addcdiv_(y, y * y, 0.5); });
  change("lerp_", [](T x, T y) { x.lerp_(y.expand(x.sizes()), 0.3); });
  change("clamp_", [](T x, T) { x.clamp_(-0.4, 0.6); });
  change("masked_fill_", [](T x, T) { x.masked_fill_(core::tensor({true, false}), 3); });
  change("tanh_", [](T x, T) { x.exp_().sqrt_().tanh_().sigmoid_().neg_().abs_().relu_(); });
  change("sin_", [](T x, T) { core::log_(core::square_(core::sin_(x)).add_(0.7)); });
  change("index_add_", [](T x, T y) { x.index_add_(1, core::tensor({0, 0}), y.expand(x.sizes()), 2); });
  change("scatter_", [](T x, T y) { x.scatter_(1, core::zeros({2, 1}, {.dtype = core::DType::i64}), y.view({2, 1})); });
  change("scatter_add_", [](T x, T y) {
    x.scatter_add_(1, core::zeros({2, 2}, {.dtype = core::DType::i64}), y.expand({2, 2}));
  });
  change("index_put_", [](T x, T y) { core::index_put_(x, {core::tensor({1, 0})}, y); });
  change("index_put_/view", [](T x, T y) { core::index_put_(x, {Slice{0, 1}}, y); });
  change("fill_diagonal_", [](T x, T) { core::fill_diagonal_(x, 2); });
  change("cumsum_", [](T x, T) { core::cumsum_(x, 0); });
  change("tril_", [](T x, T) { core::tril_(x); });
  change("masked_scatter_", [](T x, T y) { core::masked_scatter_(x, core::tensor({true, false}), y.repeat({2})); });
  change("elu_", [](T x, T) { core::leaky_relu_(core::elu_(x)); });
}

}  // namespace test
