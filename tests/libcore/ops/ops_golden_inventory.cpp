// Operations that only inventory/ops.json has (make_inventory.py).
#include <cmath>
#include <string>
#include <vector>

#include "libcore/autograd/func.h"
#include "libcore/module/fusion.h"
#include "libcore/ops/activation.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/conv.h"
#include "libcore/ops/dropout.h"
#include "libcore/ops/embedding.h"
#include "libcore/ops/fft.h"
#include "libcore/ops/index.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/linalg/product.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/pool.h"
#include "libcore/ops/quantize.h"
#include "libcore/ops/resize.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/sparse.h"
#include "libcore/ops/special.h"
#include "libcore/ops/view.h"
#include "libcore/optim/clip.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/random.h"
#include "libcore/tensor/type_promotion.h"
#include "tests/libcore/ops/ops_golden.h"

namespace test {
namespace {

using core::Shape;
using core::Tensor;
using List = std::vector<Tensor>;

/// The numbers of a list, or of lists of one length, as int64.
Tensor integers_of(Json value) {
  const std::vector<Json> rows = items(value);
  if (!rows.empty() && rows[0].is_array()) {
    List stacked;
    for (Json row : rows) stacked.push_back(integers_of(row));
    return core::stack(stacked);
  }
  std::vector<std::int64_t> values;
  for (Json item : rows) values.push_back(integer(item));
  return core::from_values(values);
}

template <class Of>
void add_polynomial(OpCalls& calls, const std::string& name, Of function) {
  const std::string op = "torch.special." + name;
  calls[op] = {[=](const OpCase& c) { return List{function(c.in[0], c.in[1])}; }};
  calls[op + ".of_number"] = {[=](const OpCase& c) { return List{function(c.scalar("x", 0), c.in[0])}; }};
  calls[op + ".by_number"] = {[=](const OpCase& c) { return List{function(c.in[0], c.scalar("n", 0))}; }};
}

#define TEST_POLYNOMIAL(name) \
  add_polynomial(calls, #name, [](const auto& x, const auto& n) { return core::special::name(x, n); })

void add_polynomials(OpCalls& calls) {
  TEST_POLYNOMIAL(chebyshev_polynomial_t);
  TEST_POLYNOMIAL(chebyshev_polynomial_u);
  TEST_POLYNOMIAL(chebyshev_polynomial_v);
  TEST_POLYNOMIAL(chebyshev_polynomial_w);
  TEST_POLYNOMIAL(shifted_chebyshev_polynomial_t);
  TEST_POLYNOMIAL(shifted_chebyshev_polynomial_u);
  TEST_POLYNOMIAL(shifted_chebyshev_polynomial_v);
  TEST_POLYNOMIAL(shifted_chebyshev_polynomial_w);
  TEST_POLYNOMIAL(hermite_polynomial_h);
  TEST_POLYNOMIAL(hermite_polynomial_he);
  TEST_POLYNOMIAL(laguerre_polynomial_l);
  TEST_POLYNOMIAL(legendre_polynomial_p);
  calls["torch.special.airy_ai"] = {[](const OpCase& c) { return List{core::special::airy_ai(c.in[0])}; }};
}
#undef TEST_POLYNOMIAL

void add_hermitian_transforms(OpCalls& calls) {
  using Nd = Tensor (*)(const Tensor&, const core::fft::NdOptions&);
  const std::pair<const char*, Nd> several[] = {{"hfft2", core::fft::hfft2},
                                                {"hfftn", core::fft::hfftn},
                                                {"ihfft2", core::fft::ihfft2},
                                                {"ihfftn", core::fft::ihfftn}};
  for (const auto& [name, function] : several) {
    calls[std::string("torch.fft.") + name] = {[f = function](const OpCase& c) {
      core::fft::NdOptions o;
      if (c.has("s")) o.s = c.shape("s");
      if (c.has("dim")) o.dim = c.shape("dim");
      o.norm = c.text("norm", "backward");
      return List{f(c.in[0], o)};
    }};
  }
}

void add_matrices(OpCalls& calls) {
  namespace linalg = core::linalg;
  calls["linalg.ldl_factor"] = {[](const OpCase& c) {
    const auto [ld, pivots] = linalg::ldl_factor(c.in[0], c.flag("hermitian"));
    return List{ld, pivots};
  }};
  calls["linalg.ldl_factor_ex"] = {[](const OpCase& c) {
    const auto [ld, pivots, info] = linalg::ldl_factor_ex(c.in[0], c.flag("hermitian"));
    return List{ld, pivots, info};
  }};
  calls["linalg.ldl_solve"] = {[](const OpCase& c) {
    const bool hermitian = c.flag("hermitian");
    return List{linalg::ldl_solve(linalg::ldl_factor(c.in[0], hermitian), c.in[1], hermitian)};
  }};
  calls["linalg.ldl_solve_with"] = {[](const OpCase& c) {
    return List{linalg::ldl_solve({c.in[0], c.in[1]}, c.in[2])};
  }};
  calls["linalg.matrix_sqrth"] = {[](const OpCase& c) { return List{linalg::matrix_sqrth(c.in[0])}; }};
  calls["torch.lu_unpack"] = {[](const OpCase& c) {
    const auto [p, l, u] =
        core::lu_unpack(c.in[0], c.in[1], c.flag("unpack_data", true), c.flag("unpack_pivots", true));
    return List{p, l, u};
  }};
  calls["torch.frobenius_norm"] = {
      [](const OpCase& c) { return List{core::frobenius_norm(c.in[0], c.shape("dim"), c.flag("keepdim"))}; }};
  calls["torch.nuclear_norm"] = {[](const OpCase& c) {
    return List{c.has("dim") ? core::nuclear_norm(c.in[0], c.shape("dim"), c.flag("keepdim"))
                             : core::nuclear_norm(c.in[0], c.flag("keepdim"))};
  }};
  calls["torch.nn.functional.grouped_mm"] = {
      [](const OpCase& c) { return List{core::grouped_mm(c.in[0], c.in[1], c.in.size() > 2 ? c.in[2] : Tensor())}; }};
}

void add_copies(OpCalls& calls) {
  const auto one = [&](const char* name, auto function) {
    calls[std::string("torch.") + name] = {[=](const OpCase& c) { return List{function(c.in[0], c)}; }};
  };
  const auto dim = [](const OpCase& c, const char* key = "dim") { return c.integer(key, 0); };
  one("alias_copy", [](const Tensor& x, const OpCase&) { return core::alias_copy(x); });
  one("detach_copy", [](const Tensor& x, const OpCase&) { return core::detach_copy(x); });
  one("as_strided_copy", [](const Tensor& x, const OpCase& c) {
    return core::as_strided_copy(x, c.shape("size"), c.shape("stride"), c.integer("storage_offset", 0));
  });
  one("diagonal_copy", [](const Tensor& x, const OpCase& c) {
    return core::diagonal_copy(x, c.integer("offset", 0), c.integer("dim1", 0), c.integer("dim2", 1));
  });
  one("expand_copy", [](const Tensor& x, const OpCase& c) { return core::expand_copy(x, c.shape("size")); });
  one("permute_copy", [](const Tensor& x, const OpCase& c) { return core::permute_copy(x, c.shape("dims")); });
  one("select_copy",
      [=](const Tensor& x, const OpCase& c) { return core::select_copy(x, dim(c), c.integer("index", 0)); });
  one("slice_copy", [=](const Tensor& x, const OpCase& c) {
    return core::slice_copy(x, dim(c), c.integer("start", 0), c.integer("end", 0), c.integer("step", 1));
  });
  one("squeeze_copy", [=](const Tensor& x, const OpCase& c) {
    return c.has("dim") ? core::squeeze_copy(x, dim(c)) : core::squeeze_copy(x);
  });
  one("unsqueeze_copy", [=](const Tensor& x, const OpCase& c) { return core::unsqueeze_copy(x, dim(c)); });
  one("t_copy", [](const Tensor& x, const OpCase&) { return core::t_copy(x); });
  one("transpose_copy",
      [=](const Tensor& x, const OpCase& c) { return core::transpose_copy(x, dim(c, "dim0"), dim(c, "dim1")); });
  one("unfold_copy", [=](const Tensor& x, const OpCase& c) {
    return core::unfold_copy(x, dim(c, "dimension"), c.integer("size", 1), c.integer("step", 1));
  });
  one("view_copy", [](const Tensor& x, const OpCase& c) { return core::view_copy(x, c.shape("size")); });
  one("view_as_real_copy", [](const Tensor& x, const OpCase&) { return core::view_as_real_copy(x); });
  one("view_as_complex_copy", [](const Tensor& x, const OpCase&) { return core::view_as_complex_copy(x); });
  one("constant_pad_nd",
      [](const Tensor& x, const OpCase& c) { return core::constant_pad_nd(x, c.shape("pad"), c.number("value", 0)); });
  calls["torch.split_copy"] = {
      [=](const OpCase& c) { return core::split_copy(c.in[0], c.integer("split_size", 1), dim(c)); }};
  calls["torch.split_with_sizes_copy"] = {
      [=](const OpCase& c) { return core::split_with_sizes_copy(c.in[0], c.shape("split_sizes"), dim(c)); }};
  calls["torch.unbind_copy"] = {[=](const OpCase& c) { return core::unbind_copy(c.in[0], dim(c)); }};
}

List listed(const core::HistogramDd& h) {
  List all{h.hist};
  all.insert(all.end(), h.bin_edges.begin(), h.bin_edges.end());
  return all;
}

void add_counts(OpCalls& calls) {
  calls["torch.histogramdd"] = {[](const OpCase& c) {
    core::HistogramDdOptions o{.density = c.flag("density")};
    if (c.has("range")) o.range = numbers(member(c.kwargs, "range"));
    if (c.in.size() > 1) o.weight = c.in[1];
    return listed(core::histogramdd(c.in[0], c.shape("bins"), o));
  }};
  calls["histogramdd.edges"] = {[](const OpCase& c) {
    return listed(core::histogramdd(c.in[0], List{c.in[1], c.in[2]}));
  }};
  calls["torch.unravel_index"] = {[](const OpCase& c) { return core::unravel_index(c.in[0], c.shape("shape")); }};
  calls["torch.hash_tensor"] = {
      [](const OpCase& c) { return List{core::hash_tensor(c.in[0], c.shape("dim"), c.flag("keepdim"))}; }};
  calls["torch.segment_reduce"] = {[](const OpCase& c) {
    core::SegmentOptions o{.axis = c.integer("axis", 0)};
    if (c.has("lengths")) o.lengths = integers_of(member(c.kwargs, "lengths"));
    if (c.has("offsets")) o.offsets = integers_of(member(c.kwargs, "offsets"));
    if (c.has("initial")) o.initial = c.number("initial", 0);
    return List{core::segment_reduce(c.in[0], c.text("reduce", "sum"), o)};
  }};
  calls["torch.fake_quantize_per_tensor_affine"] = {[](const OpCase& c) {
    return List{core::fake_quantize_per_tensor_affine(c.in[0], c.number("scale", 1), c.integer("zero_point", 0),
                                                      c.integer("quant_min", 0), c.integer("quant_max", 0))};
  }};
  calls["torch.fake_quantize_per_channel_affine"] = {[](const OpCase& c) {
    return List{core::fake_quantize_per_channel_affine(c.in[0], c.in[1], c.in[2], c.integer("axis", 0),
                                                       c.integer("quant_min", 0), c.integer("quant_max", 0))};
  }};
}

void add_unpooling(OpCalls& calls) {
  using Unpool = Tensor (*)(const Tensor&, const Tensor&, const Shape&, const core::UnpoolOptions&);
  const std::pair<const char*, Unpool> ranks[] = {
      {"max_unpool1d", core::max_unpool1d}, {"max_unpool2d", core::max_unpool2d}, {"max_unpool3d", core::max_unpool3d}};
  for (const auto& [name, function] : ranks) {
    calls[name] = {[f = function](const OpCase& c) {
      return List{f(c.in[0], c.in[1], c.shape("kernel"), {.output_size = c.shape("output_size")})};
    }};
  }
}

void add_layers(OpCalls& calls) {
  calls["torch.conv_tbc"] = {
      [](const OpCase& c) { return List{core::conv_tbc(c.in[0], c.in[1], c.in[2], c.integer("pad", 0))}; }};
  calls["linear_cross_entropy"] = {[](const OpCase& c) {
    core::CrossEntropyOptions o{.ignore_index = c.integer("ignore_index", -100),
                                .reduction = core::parse_reduction(c.text("reduction", "mean")),
                                .label_smoothing = c.number("label_smoothing", 0)};
    return List{core::linear_cross_entropy(c.in[0], c.in[1], c.in[2], c.in[3], o)};
  }};
  calls["torch.grid_sampler"] = {[](const OpCase& c) {
    return List{core::grid_sampler(c.in[0], c.in[1], c.integer("interpolation_mode", 0), c.integer("padding_mode", 0),
                                   c.flag("align_corners"))};
  }};
  calls["upsample_nearest"] = {
      [](const OpCase& c) { return List{core::upsample_nearest(c.in[0], {.scale_factor = {2}})}; }};
  calls["upsample_bilinear"] = {
      [](const OpCase& c) { return List{core::upsample_bilinear(c.in[0], {.scale_factor = {2}})}; }};
  calls["rrelu_"] = {[](const OpCase& c) {
    return List{core::rrelu_(c.in[0].clone(), {.lower = c.number("lower", 0), .upper = c.number("upper", 0)})};
  }};
  calls["embedding_renorm_"] = {[](const OpCase& c) {
    return List{core::embedding_renorm_(c.in[0].clone(), c.in[1], c.number("max_norm", 1), c.number("norm_type", 2))};
  }};
  using Dropout = const Tensor& (*)(const Tensor&, double, bool);
  const std::pair<const char*, Dropout> dropouts[] = {{"alpha_dropout_", core::alpha_dropout_},
                                                      {"feature_alpha_dropout_", core::feature_alpha_dropout_},
                                                      {"feature_dropout_", core::feature_dropout_}};
  for (const auto& [name, function] : dropouts) {
    calls[name] = {[f = function](const OpCase& c) {
      core::manual_seed(3);
      return List{f(c.in[0] * 1, c.number("p", 0), true)};
    }};
  }
}

void add_made(OpCalls& calls) {
  const auto type = [](const OpCase& c) { return core::parse_dtype(c.text("dtype", "float32")); };
  calls["torch.logspace"] = {[=](const OpCase& c) {
    return List{core::logspace(c.number("start", 0), c.number("end", 0), c.integer("steps", 0), c.number("base", 10),
                               {.dtype = type(c)})};
  }};
  calls["torch.scalar_tensor"] = {
      [=](const OpCase& c) { return List{core::scalar_tensor(c.scalar("value", 0), {.dtype = type(c)})}; }};
  calls["torch.randint_like"] = {[](const OpCase& c) {
    core::manual_seed(5);
    return List{core::randint_like(c.in[0], c.integer("low", 0), c.integer("high", 1))};
  }};
  calls["torch.empty_permuted"] = {[](const OpCase& c) {
    const Tensor made = core::empty_permuted(c.shape("size"), c.shape("physical_layout"));
    return List{core::from_values(made.strides().to_vector())};
  }};
  calls["torch.can_cast"] = {[](const OpCase& c) {
    List rows;
    const std::vector<std::string> names = texts(member(c.kwargs, "names"));
    for (const std::string& from : names) {
      std::vector<std::int64_t> row;
      for (const std::string& to : names) row.push_back(core::can_cast(core::parse_dtype(from), core::parse_dtype(to)));
      rows.push_back(core::from_values(row).to(core::DType::boolean));
    }
    return List{core::stack(rows)};
  }};
}

/// Without a gradient a copy, as what is called element by element is written in place.
Tensor own(const Tensor& x) {
  return x.requires_grad() ? x : x.clone();
}

void add_methods(OpCalls& calls) {
  calls["Tensor.apply_"] = {
      [](const OpCase& c) { return List{core::apply_(own(c.in[0]), [](double v) { return v * 2 + 1; })}; }};
  calls["Tensor.map_"] = {[](const OpCase& c) {
    return List{core::map_(own(c.in[0]), c.in[1], [](double v, double w) { return v * 2 + w; })};
  }};
  calls["Tensor.map2_"] = {[](const OpCase& c) {
    return List{
        core::map2_(own(c.in[0]), c.in[1], c.in[2], [](double v, double w, double u) { return v * 2 + w - u; })};
  }};
  const auto parts = [](const Tensor& s) { return List{core::sparse_indices(s), core::sparse_values(s)}; };
  calls["Tensor.to_sparse"] = {[=](const OpCase& c) {
    return parts(c.has("sparse_dim") ? core::to_sparse(c.in[0], c.integer("sparse_dim", 0)) : core::to_sparse(c.in[0]));
  }};
  calls["Tensor.sparse_mask"] = {[=](const OpCase& c) {
    return parts(core::sparse_mask(c.in[0], core::to_sparse(c.in[1], c.integer("sparse_dim", 2))));
  }};
  calls["func.linearize"] = {[](const OpCase& c) {
    const auto wave = [](const Tensor& x, const Tensor& y) { return core::sin(x) * core::exp(y) + x * x * y; };
    const auto [value, along] = core::func::linearize(wave, c.in[0], c.in[1]);
    return List{value, along(c.in[2], c.in[3]), along(c.in[3], c.in[2])};
  }};
  const auto norm_of = [](const OpCase& c) {
    return core::NormWeights{.running_mean = c.in[2], .running_var = c.in[3], .weight = c.in[4], .bias = c.in[5]};
  };
  calls["fuse_conv_bn_weights"] = {[=](const OpCase& c) {
    const auto [weight, bias] = core::fuse_conv_bn_weights(c.in[0], c.in[1], norm_of(c));
    return List{weight.detach(), bias.detach()};
  }};
  calls["fuse_linear_bn_weights"] = {[=](const OpCase& c) {
    const auto [weight, bias] = core::fuse_linear_bn_weights(c.in[0], c.in[1], norm_of(c));
    return List{weight.detach(), bias.detach()};
  }};
  calls["get_total_norm"] = {[](const OpCase& c) {
    return List{core::get_total_norm(c.in, c.number("norm_type", 2), c.flag("error_if_nonfinite"))};
  }};
}

}  // namespace

void add_inventory_calls(OpCalls& calls) {
  add_polynomials(calls);
  add_hermitian_transforms(calls);
  add_matrices(calls);
  add_copies(calls);
  add_counts(calls);
  add_unpooling(calls);
  add_layers(calls);
  add_made(calls);
  add_methods(calls);
}

}  // namespace test
