#pragma once
// How a draw moves when the parameter of its distribution does and the probability below it stays. Internal to
// random_draws.cpp. The approximations and their coefficients are PyTorch's. Thread safety: pure functions.
// Use: double by_concentration = core::detail::standard_gamma_grad(2.5, 1.7);

namespace core::detail {

/// Of x, a draw of Gamma(alpha, 1), by alpha.
double standard_gamma_grad(double alpha, double x);
/// Of x, a draw of Beta(alpha, total - alpha), by alpha, divided by 1 - x.
double dirichlet_grad(double x, double alpha, double total);

}  // namespace core::detail
