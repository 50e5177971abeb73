#include "libcore/autograd/autograd.h"

#include <string>

#include "libcore/autograd/autograd_meta.h"
#include "libcore/autograd/engine.h"
#include "libcore/base/error.h"
#include "libcore/ops/operators.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace core {
namespace {

/// Where the roots lead and what flows into them. Errors: PyTorch's.
struct Roots {
  std::vector<Edge> edges;
  std::vector<Tensor> grads;
};

std::string size_text(const Tensor& t) {
  return "torch.Size(" + to_list(t.sizes()) + ")";
}

Tensor root_grad(const Tensor& output, const Tensor& given, std::size_t index) {
  if (given.defined()) {
    if (given.sizes() != output.sizes()) {
      throw Error(ErrorCode::runtime, "Mismatch in shape: grad_output[" + std::to_string(index) + "] has a shape of " +
                                          size_text(given) + " and output[" + std::to_string(index) +
                                          "] has a shape of " + size_text(output) + ".");
    }
    return given;
  }
  if (output.numel() != 1) throw Error(ErrorCode::runtime, "grad can be implicitly created only for scalar outputs");
  if (core::is_complex(output.dtype())) {
    throw Error(ErrorCode::runtime, "grad can be implicitly created only for real scalar outputs but got torch." +
                                        std::string(name(output.dtype())));
  }
  return ones_like(output);
}

void check_output(const Tensor& output, std::size_t index) {
  if (output.requires_grad()) return;
  throw Error(ErrorCode::runtime,
              "element " + std::to_string(index) + " of tensors does not require grad and does not have a grad_fn");
}

Roots roots_of(const std::vector<Tensor>& outputs, const GradOptions& options) {
  Roots roots;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_output(outputs[i], i);
    Tensor given = i < options.grad_outputs.size() ? options.grad_outputs[i] : Tensor();
    roots.grads.push_back(root_grad(outputs[i], given, i));
    roots.edges.push_back(gradient_edge(outputs[i]));
  }
  return roots;
}

BackwardOptions engine_options(const GradOptions& options) {
  return {.keep_graph = options.retain_graph || options.create_graph, .create_graph = options.create_graph};
}

}  // namespace

namespace {

/// Adds to the gradients of `inputs` alone.
void backward_to(Roots roots, const std::vector<Tensor>& inputs, const GradOptions& options) {
  std::vector<Edge> captures;
  for (const Tensor& input : inputs) {
    input.retain_grad();
    captures.push_back(gradient_edge(input));
  }
  auto found = GraphTask(roots.edges, roots.grads, engine_options(options)).run(captures);
  GradModeGuard mode(options.create_graph);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!found[i].defined() || !captures[i].node->is_accumulator()) continue;
    static_cast<AccumulateGrad*>(captures[i].node.get())->accumulate(std::move(found[i]));
  }
}

}  // namespace

void backward(const std::vector<Tensor>& outputs, const GradOptions& options) {
  Roots roots = roots_of(outputs, options);
  if (!options.inputs.empty()) return backward_to(std::move(roots), options.inputs, options);
  GraphTask(roots.edges, roots.grads, engine_options(options)).run({});
}

void detail::backward_one(const Tensor& output, const Tensor& given, const BackwardOptions& options) {
  check_output(output, 0);
  Tensor grads[] = {root_grad(output, given, 0)};
  const Edge edges[] = {gradient_edge(output)};
  GraphTask(edges, grads, options).run({});
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const GradOptions& options) {
  Roots roots = roots_of(outputs, options);
  std::vector<Edge> captures;
  for (const Tensor& input : inputs) {
    if (!input.requires_grad()) {
      throw Error(ErrorCode::runtime, "One of the differentiated Tensors does not require grad");
    }
    captures.push_back(gradient_edge(input));
  }
  auto found = GraphTask(roots.edges, roots.grads, engine_options(options)).run(captures);
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].defined()) continue;
    if (options.materialize_grads) {
      found[i] = zeros_like(inputs[i]);
    } else if (!options.allow_unused) {
      throw Error(ErrorCode::runtime,
                  "The differentiated Tensor at index " + std::to_string(i) +
                      " appears to not have been used in the graph. Set allow_unused=True if this is "
                      "the desired behavior.");
    }
  }
  return found;
}

}  // namespace core
