// Operations that only complex/ops.json has: complex numbers made and taken apart, Fourier transforms,
// frames, windows, and functions of functions.
#include "libcore/ops/complex.h"

#include <complex>
#include <limits>

#include "libcore/autograd/func.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/fft.h"
#include "libcore/ops/index.h"
#include "libcore/ops/linalg/decompose.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/linalg/solve.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/scan.h"
#include "libcore/ops/scatter.h"
#include "libcore/ops/sort.h"
#include "libcore/ops/stft.h"
#include "libcore/ops/window.h"
#include "libcore/tensor/random.h"
#include "tests/libcore/ops/ops_golden.h"

namespace test {
namespace {

using core::Tensor;

OpCall of_one(Tensor (*function)(const Tensor&)) {
  return {[function](const OpCase& c) { return std::vector<Tensor>{function(c.in[0])}; }};
}
OpCall of_two(Tensor (*function)(const Tensor&, const Tensor&)) {
  return {[function](const OpCase& c) { return std::vector<Tensor>{function(c.in[0], c.in[1])}; }};
}

/// A pair [real, imaginary].
Tensor number_of(const OpCase& c, const char* key = "number") {
  const std::vector<double> parts = numbers(member(c.kwargs, key));
  return core::complex_number(parts.at(0), parts.at(1));
}

void add_parts(OpCalls& calls) {
  calls["torch.conj"] = of_one(core::conj);
  calls["torch.angle"] = of_one(core::angle);
  calls["torch.real"] = of_one(core::real);
  calls["torch.imag"] = of_one(core::imag);
  calls["torch.view_as_real"] = of_one(core::view_as_real);
  calls["torch.view_as_complex"] = of_one(core::view_as_complex);
  calls["torch.sgn"] = of_one(core::sgn);
  calls["torch.asinh"] = of_one(core::asinh);
  calls["torch.acosh"] = of_one(core::acosh);
  calls["torch.atanh"] = of_one(core::atanh);
  calls["torch.sinc"] = of_one(core::sinc);
  calls["torch.complex"] = of_two(core::complex);
  calls["torch.polar"] = of_two(core::polar);
  calls["number.add"] = {[](const OpCase& c) { return std::vector<Tensor>{c.in[0] + number_of(c)}; }};
  calls["number.mul"] = {[](const OpCase& c) { return std::vector<Tensor>{c.in[0] * number_of(c)}; }};
  calls["number.div"] = {[](const OpCase& c) { return std::vector<Tensor>{c.in[0] / number_of(c)}; }};
  calls["number.rdiv"] = {[](const OpCase& c) { return std::vector<Tensor>{number_of(c) / c.in[0]}; }};
  calls["number.pow"] = {[](const OpCase& c) { return std::vector<Tensor>{core::pow(c.in[0], number_of(c))}; }};
  calls["number.eq"] = {[](const OpCase& c) { return std::vector<Tensor>{c.in[0] == number_of(c)}; }};
  // Real parts of the first input, written in place through the view of them.
  calls["real.mul_"] = {[](const OpCase& c) {
    const Tensor z = c.in[0] * 1;
    core::real(z).mul_(c.in[1]);
    return std::vector<Tensor>{z};
  }};
}

core::fft::Options options_of(const OpCase& c) {
  core::fft::Options o;
  if (c.has("n")) o.n = c.integer("n", 0);
  o.dim = c.integer("dim", -1);
  o.norm = c.text("norm", "backward");
  return o;
}
core::fft::NdOptions nd_options_of(const OpCase& c) {
  core::fft::NdOptions o;
  if (c.has("s")) o.s = c.shape("s");
  if (c.has("dim")) o.dim = c.shape("dim");
  o.norm = c.text("norm", "backward");
  return o;
}

void add_transforms(OpCalls& calls) {
  using One = Tensor (*)(const Tensor&, const core::fft::Options&);
  using Nd = Tensor (*)(const Tensor&, const core::fft::NdOptions&);
  const std::pair<const char*, One> ones[] = {{"fft", core::fft::fft},   {"ifft", core::fft::ifft},
                                              {"rfft", core::fft::rfft}, {"irfft", core::fft::irfft},
                                              {"hfft", core::fft::hfft}, {"ihfft", core::fft::ihfft}};
  for (const auto& [name, function] : ones) {
    calls[std::string("torch.fft.") + name] = {
        [f = function](const OpCase& c) { return std::vector<Tensor>{f(c.in[0], options_of(c))}; }};
  }
  const std::pair<const char*, Nd> several[] = {{"fft2", core::fft::fft2},   {"ifft2", core::fft::ifft2},
                                                {"rfft2", core::fft::rfft2}, {"irfft2", core::fft::irfft2},
                                                {"fftn", core::fft::fftn},   {"ifftn", core::fft::ifftn},
                                                {"rfftn", core::fft::rfftn}, {"irfftn", core::fft::irfftn}};
  for (const auto& [name, function] : several) {
    calls[std::string("torch.fft.") + name] = {
        [f = function](const OpCase& c) { return std::vector<Tensor>{f(c.in[0], nd_options_of(c))}; }};
  }
  const auto dims = [](const OpCase& c) {
    return c.has("dim") ? std::optional<core::Shape>(c.shape("dim")) : std::nullopt;
  };
  calls["torch.fft.fftshift"] = {
      [=](const OpCase& c) { return std::vector<Tensor>{core::fft::fftshift(c.in[0], dims(c))}; }};
  calls["torch.fft.ifftshift"] = {
      [=](const OpCase& c) { return std::vector<Tensor>{core::fft::ifftshift(c.in[0], dims(c))}; }};
  calls["torch.fft.fftfreq"] = {
      [](const OpCase& c) { return std::vector<Tensor>{core::fft::fftfreq(c.integer("n", 0), c.number("d", 1))}; }};
  calls["torch.fft.rfftfreq"] = {
      [](const OpCase& c) { return std::vector<Tensor>{core::fft::rfftfreq(c.integer("n", 0), c.number("d", 1))}; }};
}

core::StftOptions stft_options_of(const OpCase& c) {
  core::StftOptions o;
  if (c.has("hop_length")) o.hop_length = c.integer("hop_length", 0);
  if (c.has("win_length")) o.win_length = c.integer("win_length", 0);
  if (c.in.size() > 1) o.window = c.in[1];
  o.center = c.flag("center", true);
  o.pad_mode = c.text("pad_mode", "reflect");
  o.normalized = c.flag("normalized");
  if (c.has("onesided")) o.onesided = c.flag("onesided");
  o.return_complex = c.flag("return_complex", true);
  return o;
}

core::IstftOptions istft_options_of(const OpCase& c) {
  const core::StftOptions same = stft_options_of(c);
  core::IstftOptions o{.hop_length = same.hop_length,
                       .win_length = same.win_length,
                       .window = same.window,
                       .center = same.center,
                       .normalized = same.normalized,
                       .onesided = same.onesided};
  if (c.has("length")) o.length = c.integer("length", 0);
  o.return_complex = c.flag("return_complex");
  return o;
}

void add_frames(OpCalls& calls) {
  calls["torch.stft"] = {[](const OpCase& c) {
    return std::vector<Tensor>{core::stft(c.in[0], c.integer("n_fft", 0), stft_options_of(c))};
  }};
  calls["torch.istft"] = {[](const OpCase& c) {
    return std::vector<Tensor>{core::istft(c.in[0], c.integer("n_fft", 0), istft_options_of(c))};
  }};
  using Window = Tensor (*)(std::int64_t, bool, const core::TensorOptions&);
  const std::pair<const char*, Window> windows[] = {
      {"hann", core::hann_window}, {"blackman", core::blackman_window}, {"bartlett", core::bartlett_window}};
  const auto options = [](const OpCase& c) {
    return core::TensorOptions{.dtype = c.flag("double") ? core::DType::f64 : core::DType::f32};
  };
  for (const auto& [name, function] : windows) {
    calls[std::string("window.") + name] = {[=, f = function](const OpCase& c) {
      return std::vector<Tensor>{f(c.integer("window_length", 0), c.flag("periodic"), options(c))};
    }};
  }
  calls["window.hamming"] = {[=](const OpCase& c) {
    return std::vector<Tensor>{core::hamming_window(c.integer("window_length", 0), c.flag("periodic"),
                                                    c.number("alpha", 0.54), c.number("beta", 0.46), options(c))};
  }};
  calls["window.kaiser"] = {[=](const OpCase& c) {
    return std::vector<Tensor>{
        core::kaiser_window(c.integer("window_length", 0), c.flag("periodic"), c.number("beta", 12), options(c))};
  }};
}

/// Functions that make_complex.py has too.
Tensor wave(const Tensor& x, const Tensor& y) {
  return core::sin(x) * core::exp(y) + x * x * y;
}
Tensor total(const Tensor& x, const Tensor& y) {
  return wave(x, y).sum();
}

void add_functions(OpCalls& calls) {
  namespace func = core::func;
  using List = std::vector<Tensor>;
  calls["func.grad"] = {[](const OpCase& c) { return List{func::grad(total)(c.in[0], c.in[1])}; }};
  calls["func.grad1"] = {[](const OpCase& c) { return List{func::grad<1>(total)(c.in[0], c.in[1])}; }};
  calls["func.grad_and_value"] = {[](const OpCase& c) {
    const auto [slopes, value] = func::grad_and_value<0, 1>(total)(c.in[0], c.in[1]);
    return List{std::get<0>(slopes), std::get<1>(slopes), value};
  }};
  calls["func.vjp"] = {[](const OpCase& c) {
    const auto [y, back] = func::vjp(wave, c.in[0], c.in[1]);
    const auto [first, second] = back(c.in[2]);
    return List{y, first, second};
  }};
  calls["func.jvp"] = {[](const OpCase& c) {
    const auto [y, along] = func::jvp(wave, std::tuple{c.in[0], c.in[1]}, std::tuple{c.in[2], c.in[3]});
    return List{y, along};
  }};
  calls["func.jacrev"] = {[](const OpCase& c) { return List{func::jacrev(wave)(c.in[0], c.in[1])}; }};
  calls["func.jacfwd"] = {[](const OpCase& c) {
    const auto [first, second] = func::jacfwd<0, 1>(wave)(c.in[0], c.in[1]);
    return List{first, second};
  }};
  calls["func.hessian"] = {[](const OpCase& c) { return List{func::hessian(total)(c.in[0], c.in[1])}; }};
  calls["func.grad_grad"] = {[](const OpCase& c) {
    const auto slope = [&](const Tensor& x) { return func::grad(total)(x, c.in[1]).sum(); };
    return List{func::grad(slope)(c.in[0])};
  }};
  calls["func.vmap"] = {[](const OpCase& c) {
    func::VmapOptions o;
    for (const std::int64_t dim : c.shape("in_dims")) {
      o.in_dims.push_back(dim == 99 ? std::nullopt : std::optional<std::int64_t>(dim));
    }
    o.out_dims = {c.integer("out_dims", 0)};
    return List{
        func::vmap([](const Tensor& x, const Tensor& y) { return core::matmul(x, y).cumsum(0); }, o)(c.in[0], c.in[1])};
  }};
  calls["func.vmap_grad"] = {[](const OpCase& c) {
    return List{func::vmap(func::grad(total), {.in_dims = {std::nullopt, 0}})(c.in[0], c.in[1])};
  }};
}

/// The sizes of complex vectors, whose phases are anything, and their product with what turns with them.
void add_factors(OpCalls& calls) {
  namespace linalg = core::linalg;
  using List = std::vector<Tensor>;
  calls["linalg.eigh"] = {[](const OpCase& c) {
    const auto [values, v] = linalg::eigh(c.in[0], c.text("UPLO", "L"));
    return List{values, core::abs(v), core::matmul(v, v.mH())};
  }};
  calls["linalg.svd"] = {[](const OpCase& c) {
    const auto [u, s, vh] = linalg::svd(c.in[0], c.flag("full_matrices"));
    const Tensor left = u.narrow(-1, 0, s.size(-1)), right = vh.narrow(-2, 0, s.size(-1));
    return List{s, core::abs(left), core::abs(right), core::matmul(left, right)};
  }};
  calls["linalg.method_svd"] = {[](const OpCase& c) { return List{core::abs(c.in[0].svd().v)}; }};
  calls["linalg.qr"] = {[](const OpCase& c) {
    const auto [q, r] = linalg::qr(c.in[0], c.text("mode", "reduced"));
    return List{q, r};
  }};
  calls["linalg.lu"] = {[](const OpCase& c) {
    const auto [p, l, u] = linalg::lu(c.in[0]);
    return List{p, l, u};
  }};
  calls["linalg.slogdet"] = {[](const OpCase& c) {
    const auto [sign, log] = linalg::slogdet(c.in[0]);
    return List{sign, log};
  }};
  calls["linalg.cholesky"] = {[](const OpCase& c) { return List{linalg::cholesky(c.in[0], c.flag("upper"))}; }};
  calls["linalg.householder_product"] = {
      [](const OpCase& c) { return List{linalg::householder_product(c.in[0], c.in[1])}; }};
  calls["linalg.ormqr"] = {
      [](const OpCase& c) { return List{c.in[0].ormqr(c.in[1], c.in[2], true, c.flag("transpose"))}; }};
}

core::linalg::MatrixOrder order_of(const OpCase& c) {
  const std::string name = c.text("name", "");
  if (name.empty()) return c.number("ord", 2);
  return name == "inf" ? core::linalg::MatrixOrder(std::numeric_limits<double>::infinity())
                       : core::linalg::MatrixOrder(name.c_str());
}

void add_equations(OpCalls& calls) {
  namespace linalg = core::linalg;
  using List = std::vector<Tensor>;
  calls["linalg.H"] = {[](const OpCase& c) { return List{c.in[0].mH()}; }};
  calls["linalg.inv"] = {[](const OpCase& c) { return List{linalg::inv(c.in[0])}; }};
  calls["linalg.det"] = {[](const OpCase& c) { return List{linalg::det(c.in[0])}; }};
  calls["linalg.logdet"] = {[](const OpCase& c) { return List{core::logdet(c.in[0])}; }};
  calls["linalg.solve"] = {[](const OpCase& c) { return List{linalg::solve(c.in[0], c.in[1])}; }};
  calls["linalg.pinv"] = {[](const OpCase& c) { return List{linalg::pinv(c.in[0])}; }};
  calls["linalg.matrix_rank"] = {[](const OpCase& c) { return List{linalg::matrix_rank(c.in[0])}; }};
  calls["linalg.matrix_norm"] = {
      [](const OpCase& c) { return List{linalg::matrix_norm(c.in[0], {.ord = order_of(c)})}; }};
  calls["linalg.cond"] = {[](const OpCase& c) { return List{linalg::cond(c.in[0], order_of(c))}; }};
  calls["linalg.svdvals"] = {[](const OpCase& c) { return List{linalg::svdvals(c.in[0])}; }};
  calls["linalg.eigvalsh"] = {[](const OpCase& c) { return List{linalg::eigvalsh(c.in[0], c.text("UPLO", "L"))}; }};
  calls["linalg.cholesky_solve"] = {
      [](const OpCase& c) { return List{core::cholesky_solve(c.in[1], c.in[0], c.flag("upper"))}; }};
  calls["linalg.cholesky_inverse"] = {
      [](const OpCase& c) { return List{core::cholesky_inverse(c.in[0], c.flag("upper"))}; }};
  calls["linalg.solve_triangular"] = {[](const OpCase& c) {
    return List{linalg::solve_triangular(
        c.in[0], c.in[1],
        {.upper = c.flag("upper"), .left = c.flag("left"), .unitriangular = c.flag("unitriangular")})};
  }};
  calls["linalg.lu_solve"] = {[](const OpCase& c) {
    return List{
        linalg::lu_solve(linalg::lu_factor(c.in[0]), c.in[1], {.left = c.flag("left"), .adjoint = c.flag("adjoint")})};
  }};
}

/// Eigenvalues by their real parts, the sizes of their vectors, and the matrix again.
std::vector<Tensor> ordered(const core::linalg::Eigen& f) {
  const Tensor order = core::argsort(core::real(f.values.detach()));
  const Tensor columns = order.unsqueeze(-2).expand(f.vectors.sizes());
  return {core::gather(f.values, -1, order), core::gather(core::abs(f.vectors), -1, columns),
          core::matmul(f.vectors * f.values.unsqueeze(-2), core::linalg::inv(f.vectors))};
}

void add_general_matrices(OpCalls& calls) {
  namespace linalg = core::linalg;
  using List = std::vector<Tensor>;
  calls["linalg.eig"] = {[](const OpCase& c) { return ordered(linalg::eig(c.in[0])); }};
  calls["linalg.eigvals"] = {[](const OpCase& c) {
    const Tensor values = linalg::eigvals(c.in[0]);
    return List{core::gather(values, -1, core::argsort(core::real(values.detach())))};
  }};
  calls["linalg.lstsq"] = {[](const OpCase& c) {
    const linalg::Lstsq f = linalg::lstsq(c.in[0], c.in[1], {.driver = c.text("driver", "gelsy")});
    return List{f.solution, f.residuals, f.rank, f.singular_values};
  }};
}

/// complex32, and random complex numbers.
void add_halves(OpCalls& calls) {
  using List = std::vector<Tensor>;
  for (const char* name : {"complex64", "complex128", "complex32", "float16", "bfloat16", "float32", "float64", "int64",
                           "int32", "uint8", "bool"}) {
    calls[std::string("to.") + name] = {
        [](const OpCase& c) { return List{c.in[0].to(core::parse_dtype(c.text("dtype", "")))}; }};
  }
  calls["half.index_add"] = {[](const OpCase& c) {
    std::vector<std::int64_t> index;
    for (const double i : numbers(member(c.kwargs, "index"))) index.push_back(static_cast<std::int64_t>(i));
    return List{core::index_add(c.in[0], 0, core::from_values(index), c.in[1])};
  }};
  for (const bool normal : {false, true}) {
    calls[normal ? "drawn.randn" : "drawn.rand"] = {[normal](const OpCase& c) {
      core::manual_seed(3);
      const core::Shape sizes{static_cast<std::int64_t>(numbers(member(c.kwargs, "sizes")).at(0))};
      const core::RandomOptions o{.dtype = core::parse_dtype(c.text("dtype", ""))};
      return List{normal ? core::randn(sizes, o) : core::rand(sizes, o)};
    }};
  }
}

}  // namespace

void add_complex_calls(OpCalls& calls) {
  add_parts(calls);
  add_transforms(calls);
  add_frames(calls);
  add_functions(calls);
  add_factors(calls);
  add_equations(calls);
  add_general_matrices(calls);
  add_halves(calls);
}

}  // namespace test
