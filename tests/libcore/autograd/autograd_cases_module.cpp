#include <ostream>

#include "libcore/autograd/autograd.h"
#include "libcore/autograd/checkpoint.h"
#include "libcore/autograd/node.h"
#include "libcore/module/activation.h"
#include "libcore/module/embedding.h"
#include "libcore/module/linear.h"
#include "libcore/module/norm.h"
#include "libcore/module/sequential.h"
#include "libcore/ops/sparse.h"
#include "libcore/optim/options.h"
#include "libcore/tensor/memory_format.h"
#include "tests/libcore/autograd/autograd_cases.h"

namespace test {
namespace {

using core::Linear;
using core::Tensor;

void zero_set_none(std::ostream& out) {
  Linear l(3, 1);
  l(core::ones({1, 3})).sum().backward();
  l.zero_grad();
  print_grad(out, l.weight);
  l(core::ones({1, 3})).sum().backward();
  l.zero_grad(false);
  print_grad(out, l.weight);
}

std::string shape_text(const Tensor& x) {
  std::string text;
  for (const std::int64_t size : x.sizes()) text += (text.empty() ? "(" : ", ") + std::to_string(size);
  return text + ")";
}

void module_hooks(std::ostream& out) {
  using core::Module;
  using Tensors = std::vector<Tensor>;
  Linear l(2, 1);
  l.register_forward_pre_hook([&](Module&, const Tensors& in) { out << "pre " << shape_text(in[0]) << '\n'; });
  l.register_forward_hook([&](Module&, const Tensors&, const Tensor& y) {
    out << "post " << shape_text(y) << '\n';
    return Tensor();
  });
  l.register_full_backward_pre_hook([&](Module&, const Tensor& g) { out << "bpre " << shape_text(g) << '\n'; });
  l.register_full_backward_hook([&](Module&, const Tensors& in, const Tensor& g) {
    out << "back " << (in[0].defined() ? shape_text(in[0]) : "None") << ' ' << shape_text(g) << '\n';
  });
  l(core::ones({3, 2}, {.requires_grad = true})).sum().backward();
}

void module_hook_replace(std::ostream& out) {
  core::Identity l;
  l.register_forward_hook([](core::Module&, const std::vector<Tensor>&, const Tensor& y) { return y * 3; });
  out << l(core::tensor({-1.46})) << '\n';
}

void checkpointed(std::ostream& out) {
  Tensor x = core::tensor({-1.46, 1.39, 1.06}).requires_grad_();
  const auto f = [](const std::vector<Tensor>& in) { return core::exp(in[0] * 2); };
  core::checkpoint(f, {x}).sum().backward();
  const Tensor g = x.grad().clone();
  x.set_grad({});
  f({x}).sum().backward();
  out << truth(g.equal(x.grad())) << '\n' << x.grad() << '\n';
}

void zero_points(std::ostream& out) {
  Tensor x = core::tensor({0.0, -0.0, 1.0}).requires_grad_();
  using F = Tensor (*)(const Tensor&);
  const F functions[] = {
      [](const Tensor& t) { return core::abs(t); },       [](const Tensor& t) { return core::relu(t); },
      [](const Tensor& t) { return core::sign(t); },      [](const Tensor& t) { return t.clamp(0, 1); },
      [](const Tensor& t) { return t.norm(); },           [](const Tensor& t) { return core::leaky_relu(t); },
      [](const Tensor& t) { return core::hardswish(t); }, [](const Tensor& t) { return core::relu6(t); }};
  for (const F f : functions) {
    x.set_grad({});
    f(x).sum().backward();
    out << x.grad() << '\n';
  }
}

void no_grad_parameter(std::ostream& out) {
  core::NoGradGuard guard;
  Linear l(2, 2);
  Tensor y = l(core::ones({1, 2}));
  out << truth(l.weight.requires_grad()) << ' ' << truth(y.requires_grad()) << '\n';
}

void double_backward_linear(std::ostream& out) {
  core::manual_seed(120);
  Linear l(3, 2);
  Tensor x = core::randn({4, 3}, {.requires_grad = true});
  Tensor g = core::grad({core::pow(l(x).tanh(), 2).sum()}, {x}, {.create_graph = true})[0];
  core::pow(g, 2).sum().backward();
  print_grad(out, l.weight);
  print_grad(out, x);
}

void apply_order(std::ostream& out) {
  core::Sequential m(Linear(1, 1), core::Sequential(core::ReLU()));
  m.apply([&](core::Module& module) { out << module.class_name() << '\n'; });
}

void requires_grad_false(std::ostream& out) {
  Linear first(2, 2), second(2, 1);
  first.requires_grad_(false);
  second(first(core::ones({1, 2}))).sum().backward();
  out << '[';
  const Tensor parameters[] = {first.weight, first.bias, second.weight, second.bias};
  for (int i = 0; i < 4; ++i) out << (i == 0 ? "" : ", ") << truth(!parameters[i].grad().defined());
  out << "]\n";
}

void linear_node_names(std::ostream& out) {
  Linear l(2, 3);
  Tensor y = l(core::ones({4, 2}));
  auto text = [](const core::Edge& edge) {
    return edge.node ? "'" + std::string(edge.node->name()) + "'" : std::string("None");
  };
  const auto& edges = y.grad_fn()->next_edges();
  out << y.grad_fn()->name() << " [";
  for (std::size_t i = 0; i < edges.size(); ++i) out << (i == 0 ? "" : ", ") << text(edges[i]);
  out << "]\n" << edges[2].node->next_edges()[0].node->name() << '\n';
}

void embedding_padding(std::ostream& out) {
  core::Embedding e(4, 2, {.padding_idx = 1});
  e(core::tensor({1, 2, 2})).sum().backward();
  print_grad(out, e.weight);
}

void shared_parameter(std::ostream& out) {
  core::manual_seed(779);
  Linear l(2, 2);
  l(l(core::ones({1, 2}))).sum().backward();
  print_grad(out, l.weight);
  print_grad(out, l.bias);
}

void module_identity(std::ostream& out) {
  Linear l(2, 1);
  Tensor w = l.weight;
  Linear& same = l.to(core::DType::f64);
  out << truth(&same == &l) << ' ' << truth(l.weight.is_same(w)) << ' ' << w.dtype() << '\n';
  l(core::ones({1, 2}, {.dtype = core::DType::f64})).sum().backward();
  l.to(core::DType::f32);
  out << w.grad().dtype() << ' ' << truth(l.weight.is_same(w)) << '\n';
}

void bn_counter_dtype(std::ostream& out) {
  core::BatchNorm1d b(2);
  b.to(core::DType::f16);
  out << b.weight.dtype() << ' ' << b.running_mean.dtype() << ' ' << b.num_batches_tracked.dtype() << '\n';
}

void state_dict_shares(std::ostream& out) {
  Linear l(1, 1);
  core::StateDict sd = l.state_dict();
  {
    core::NoGradGuard guard;
    l.weight.fill_(-1.46);
  }
  out << sd.at("weight") << '\n'
      << truth(sd.at("weight").requires_grad()) << ' ' << truth(l.state_dict("", true).at("weight").requires_grad())
      << '\n';
}

}  // namespace

void add_module_cases(AutogradCases& c) {
  c["module_hooks"] = module_hooks;
  c["module_hook_replace"] = module_hook_replace;
  c["checkpoint"] = checkpointed;
  c["zero_points"] = zero_points;
  c["zero_set_none"] = zero_set_none;
  c["no_grad_parameter"] = no_grad_parameter;
  c["double_backward_linear"] = double_backward_linear;
  c["apply_order"] = apply_order;
  c["requires_grad_false"] = requires_grad_false;
  c["linear_node_names"] = linear_node_names;
  c["embedding_padding"] = embedding_padding;
  c["shared_parameter"] = shared_parameter;
  c["module_identity"] = module_identity;
  c["bn_counter_dtype"] = bn_counter_dtype;
  c["state_dict_shares"] = state_dict_shares;
}

}  // namespace test
