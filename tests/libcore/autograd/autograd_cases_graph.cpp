#include <ostream>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/functional.h"
#include "libcore/autograd/gradcheck.h"
#include "libcore/autograd/node.h"
#include "libcore/backend/collectives.h"
#include "libcore/base/error.h"
#include "libcore/ops/blas.h"
#include "libcore/ops/join.h"
#include "libcore/ops/linalg/norm.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/pointwise.h"
#include "libcore/parallel/comm.h"
#include "tests/libcore/autograd/autograd_cases.h"

namespace test {
namespace {

using core::grad;
using core::Tensor;

void accumulate(std::ostream& out) {
  Tensor x = leaf();
  for (int i = 0; i < 2; ++i) (x * x).sum().backward();
  print_grad(out, x);
}

void retain(std::ostream& out) {
  Tensor x = leaf();
  Tensor y = core::pow(x, 3).sum();
  y.backward({}, true);
  y.backward();
  print_grad(out, x);
}

void retain_grad(std::ostream& out) {
  Tensor x = leaf();
  Tensor h = x * 3;
  h.retain_grad();
  (h * h).sum().backward();
  out << h.grad() << ' ' << x.grad() << ' ' << truth(h.is_leaf()) << ' ' << truth(x.is_leaf()) << '\n';
}

void no_grad(std::ostream& out) {
  Tensor x = leaf();
  Tensor y;
  {
    core::NoGradGuard guard;
    y = x * 2;
  }
  out << truth(y.requires_grad()) << ' ' << (y.grad_fn() ? "node" : "None") << '\n';
  y = x * 2;
  out << truth(y.requires_grad()) << ' ' << truth(static_cast<bool>(y.grad_fn())) << '\n';
}

void inference_mode(std::ostream& out) {
  Tensor x = leaf();
  core::InferenceModeGuard guard;
  Tensor y = x * 2;
  out << truth(y.requires_grad()) << ' ' << truth(y.is_inference()) << '\n';
}

void set_grad_enabled(std::ostream& out) {
  Tensor x = leaf();
  {
    core::GradModeGuard off(false);
    out << truth(core::is_grad_enabled()) << ' ' << truth((x * 2).requires_grad()) << '\n';
  }
  out << truth(core::is_grad_enabled()) << '\n';
}

void detach(std::ostream& out) {
  Tensor x = leaf();
  Tensor d = x.detach();
  out << truth(d.requires_grad()) << ' ' << truth(d.raw_data() == x.raw_data()) << '\n';
  (x * d).sum().backward();
  print_grad(out, x);
}

void data(std::ostream& out) {
  Tensor x = leaf();
  x.data_alias().mul_(2);
  out << x << '\n' << x.version() << '\n';
}

void version(std::ostream& out) {
  Tensor x = core::ones({2});
  out << x.version() << '\n';
  x.add_(1);
  out << x.version() << '\n';
  Tensor y = x.view({2});
  y.mul_(2);
  out << x.version() << ' ' << y.version() << '\n';
  x.detach().zero_();
  out << x.version() << '\n';
}

void double_backward(std::ostream& out) {
  Tensor x = leaf();
  Tensor g = grad({core::pow(x, 3).sum()}, {x}, {.create_graph = true})[0];
  out << g << '\n' << grad({g.sum()}, {x})[0] << '\n';
  g = grad({x.sin().sum()}, {x}, {.create_graph = true})[0];
  out << grad({g.sum()}, {x})[0] << '\n';
}

void double_backward_sigmoid(std::ostream& out) {
  core::manual_seed(507);
  Tensor w = core::randn({3, 3}, {.requires_grad = true});
  Tensor x = core::randn({2, 3}, {.requires_grad = true});
  Tensor g = grad({core::matmul(x, w).sigmoid().sum()}, {x}, {.create_graph = true})[0];
  core::pow(core::norm(g, {.dims = {1}}) - 1, 2).mean().backward();
  print_grad(out, w);
}

void grad_unused(std::ostream& out) {
  Tensor x = leaf();
  Tensor z = core::ones({1}, {.requires_grad = true});
  auto grads = grad({(x * 2).sum()}, {x, z}, {.allow_unused = true});
  out << '(' << grads[0] << ", " << (grads[1].defined() ? "?" : "None") << ")\n";
}

void grad_materialize(std::ostream& out) {
  Tensor x = leaf();
  Tensor z = core::ones({2}, {.requires_grad = true});
  auto grads = grad({(x * 2).sum()}, {x, z}, {.materialize_grads = true});
  out << '(' << grads[0] << ", " << grads[1] << ")\n";
}

void grad_outputs(std::ostream& out) {
  Tensor x = leaf();
  Tensor y = x * 2;
  y.backward(core::tensor({1.0, 0.5, -1.0}));
  print_grad(out, x);
}

void two_outputs(std::ostream& out) {
  Tensor x = leaf();
  out << '(' << grad({(x * 2).sum(), (x * x).sum()}, {x})[0] << ",)\n";
}

void diamond(std::ostream& out) {
  Tensor x = leaf();
  Tensor h = x.exp();
  (h * h + h).sum().backward();
  print_grad(out, x);
}

void broadcast(std::ostream& out) {
  Tensor w = core::full({3, 1}, -1.46, {.requires_grad = true});
  Tensor v = core::full({3}, 1.39, {.requires_grad = true});
  (w * v).sum().backward();
  print_grad(out, w);
  print_grad(out, v);
}

void inplace_history(std::ostream& out) {
  Tensor x = leaf();
  Tensor y = x * 2;
  y.add_(1);
  y.mul_(3);
  out << y << '\n';
  y.sum().backward();
  print_grad(out, x);
}

void inplace_view(std::ostream& out) {
  Tensor x = leaf();
  Tensor y = x * 1;
  y[0].fill_(7.0);
  out << y << '\n' << y.slice(0, 0, 2) << '\n';
  y.sum().backward();
  print_grad(out, x);
}

void inplace_view_mul(std::ostream& out) {
  Tensor x = leaf();
  Tensor y = x * 1;
  y.slice(0, 1).mul_(5);
  out << y.grad_fn()->name() << '\n';
  y.sum().backward();
  print_grad(out, x);
}

void copy_into(std::ostream& out) {
  Tensor x = leaf();
  Tensor buf = core::zeros({3});
  buf.copy_(x * 2);
  out << buf.grad_fn()->name() << ' ' << truth(buf.requires_grad()) << '\n';
  buf.sum().backward();
  print_grad(out, x);
}

void hook(std::ostream& out) {
  Tensor x = leaf();
  Tensor h = x * 2;
  h.register_hook([](const Tensor& g) { return g * 10; });
  h.sum().backward();
  print_grad(out, x);
}

void hook_remove(std::ostream& out) {
  Tensor x = leaf();
  auto id = x.register_hook([](const Tensor& g) { return g * 10; });
  x.remove_hook(id);
  (x * 2).sum().backward();
  print_grad(out, x);
}

void hook_order(std::ostream& out) {
  Tensor x = leaf();
  x.register_hook([](const Tensor& g) { return g + 1; });
  x.register_hook([](const Tensor& g) { return g * 2; });
  x.sum().backward();
  print_grad(out, x);
}

void node_names(std::ostream& out) {
  Tensor x = leaf();
  Tensor y = ((x * 2).relu() + 1).mean();
  auto node = y.grad_fn();
  while (node) {
    out << node->name() << '\n';
    node = node->next_edges().empty() ? core::IntrusivePtr<core::Node>() : node->next_edges()[0].node;
  }
}

struct SqBackward final : core::Node {
  std::string_view name() const override { return "SqBackward"; }
  core::TensorList apply(core::TensorList g) override { return {g[0] * 2 * saved(0)}; }
};

void custom_function(std::ostream& out) {
  Tensor x = leaf();
  auto sq = [](const Tensor& t) {
    Tensor result = t.detach() * t.detach();
    if (core::needs_grad(t)) {
      auto node = core::make_node<SqBackward>(t);
      node->save(t);
      core::record(result, node);
    }
    return result;
  };
  Tensor y = sq(x);
  out << y << '\n';
  y.sum().backward();
  print_grad(out, x);
}

void gradcheck(std::ostream& out) {
  core::manual_seed(0);
  Tensor x = core::randn({2, 3}, {.dtype = core::DType::f64, .requires_grad = true});
  auto function = [](std::span<const Tensor> in) { return (in[0].tanh() * in[0]).sum({1}); };
  out << truth(core::gradcheck(function, {x})) << '\n';
}

void jacobian(std::ostream& out) {
  Tensor x = core::tensor({-1.46, 1.39}, {.requires_grad = true});
  Tensor y = core::stack({x[0] * x[1], core::pow(x[0], 2)});
  std::vector<Tensor> rows;
  for (int i = 0; i < 2; ++i) rows.push_back(grad({y[i]}, {x}, {.retain_graph = true})[0]);
  out << core::stack(rows) << '\n';
}

void identity_rules(std::ostream& out) {
  Tensor x = core::ones({2}, {.device = core::Device()});
  core::ToOptions copied{.device = core::Device("cpu"), .dtype = {}, .copy = true};
  const bool same[] = {x.to(core::Device("cpu")).is_same(x),
                       x.to(core::DType::f32).is_same(x),
                       x.cpu().is_same(x),
                       x.to_float().is_same(x),
                       x.contiguous().is_same(x),
                       x.to(copied).is_same(x),
                       x.to_double().is_same(x),
                       x.view({2}).is_same(x),
                       x.detach().is_same(x)};
  for (std::size_t i = 0; i < std::size(same); ++i) out << (i == 0 ? "" : " ") << truth(same[i]);
  out << '\n';
}

}  // namespace

void add_graph_cases(AutogradCases& c) {
  c["accumulate"] = accumulate;
  c["retain"] = retain;
  c["retain_grad"] = retain_grad;
  c["no_grad"] = no_grad;
  c["inference_mode"] = inference_mode;
  c["set_grad_enabled"] = set_grad_enabled;
  c["detach"] = detach;
  c["data"] = data;
  c["version"] = version;
  c["double_backward"] = double_backward;
  c["double_backward_sigmoid"] = double_backward_sigmoid;
  c["grad_unused"] = grad_unused;
  c["grad_materialize"] = grad_materialize;
  c["grad_outputs"] = grad_outputs;
  c["two_outputs"] = two_outputs;
  c["diamond"] = diamond;
  c["broadcast"] = broadcast;
  c["inplace_history"] = inplace_history;
  c["inplace_view"] = inplace_view;
  c["inplace_view_mul"] = inplace_view_mul;
  c["copy_into"] = copy_into;
  c["hook"] = hook;
  c["hook_remove"] = hook_remove;
  c["hook_order"] = hook_order;
  c["node_names"] = node_names;
  c["custom_function"] = custom_function;
  c["gradcheck"] = gradcheck;
  c["jacobian"] = jacobian;
  c["identity_rules"] = identity_rules;
}

}  // namespace test
