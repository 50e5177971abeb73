#pragma once
// Function: an operation of a user's own with a backward of its own, as torch.autograd.Function.
// Thread safety: as any operation. For operations inside the library write a Node (node.h).
// Use: struct Square : core::Function<Square> {
//        static core::Tensor forward(core::FunctionContext& context, const core::Tensor& x) {
//          context.save_for_backward({x});
//          return x * x;
//        }
//        static std::vector<core::Tensor> backward(core::FunctionContext& context, const std::vector<core::Tensor>& g)
//        {
//          return {g[0] * 2 * context.saved_tensors()[0]};
//        }
//      };
//      core::Tensor y = Square::apply(x);   // prints grad_fn=<SquareBackward>

#include <any>
#include <functional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/node.h"
#include "libcore/base/class_name.h"

namespace core {

namespace detail {
class FunctionNode;
}

/// What forward hands to backward.
class FunctionContext {
 public:
  /// Inputs or outputs of forward, or what it computed on the way. Checked against changes in place; freed with the
  /// graph.
  void save_for_backward(std::vector<Tensor> tensors) { to_save_ = std::move(tensors); }
  /// In backward. Errors: PyTorch's texts for a second backward and for in-place changes.
  std::vector<Tensor> saved_tensors() const;
  /// Inputs that forward changed in place and returns.
  void mark_dirty(std::vector<Tensor> tensors) { dirty_ = std::move(tensors); }
  /// Outputs without a gradient. Those of integer dtypes never have one.
  void mark_non_differentiable(std::vector<Tensor> tensors) { without_grad_ = std::move(tensors); }
  /// False: gradients of outputs that nobody used come undefined instead of as zeros.
  void set_materialize_grads(bool value) { materialize_ = value; }
  /// In forward and backward: whether argument i is a tensor that wants a gradient.
  bool needs_input_grad(std::size_t i) const { return i < needs_.size() && needs_[i]; }
  /// Numbers, shapes and the like.
  std::unordered_map<std::string, std::any> saved_data;

 private:
  friend class detail::FunctionNode;
  std::vector<Tensor> to_save_, dirty_, without_grad_;
  std::vector<bool> needs_;
  bool materialize_ = true;
  const detail::FunctionNode* node_ = nullptr;
};

namespace detail {

using FunctionBackward = std::vector<Tensor> (*)(FunctionContext&, const std::vector<Tensor>&);

class FunctionNode final : public Node, public FollowsConvention {
 public:
  FunctionNode(std::string class_name, FunctionBackward backward);
  std::string_view name() const override { return name_; }
  TensorList apply(TensorList grads) override;
  FunctionContext& context() { return context_; }
  std::vector<Tensor> unpack() const;

  /// The arguments in order; undefined ones stand for those that are no tensors.
  void start(std::vector<Tensor> arguments, std::vector<bool> is_tensor);
  /// Gives the outputs of forward their history.
  void finish(std::vector<Tensor>& outputs, const IntrusivePtr<FunctionNode>& self);

 private:
  Tensor recorded(Tensor output, const IntrusivePtr<FunctionNode>& self);
  std::string name_;
  FunctionBackward backward_;
  FunctionContext context_;
  std::vector<Tensor> arguments_;  // while forward runs
  std::vector<bool> is_tensor_;
  std::size_t saved_count_ = 0;
  bool any_history_ = false;
};

template <class T>
Tensor argument_tensor(const T& value) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return value;
  } else {
    return {};
  }
}

}  // namespace detail

/// D has static forward(FunctionContext&, arguments...) giving a Tensor or a vector of them, and static
/// backward(FunctionContext&, gradients of the outputs) giving one gradient an argument (undefined for what is no
/// tensor). Forward runs without history. Errors: "function SquareBackward returned an incorrect number of gradients
/// (expected 2, got 1)" and its siblings.
template <class D>
class Function {
 public:
  template <class... Arguments>
  static auto apply(const Arguments&... arguments) {
    auto node = make_intrusive<detail::FunctionNode>(short_class_name(typeid(D)), &D::backward);
    node->start({detail::argument_tensor(arguments)...}, {std::is_same_v<Arguments, Tensor>...});
    auto result = [&] {
      const NoGradGuard no_history;
      return D::forward(node->context(), arguments...);
    }();
    if constexpr (std::is_same_v<decltype(result), Tensor>) {
      std::vector<Tensor> outputs{std::move(result)};
      node->finish(outputs, node);
      return outputs[0];
    } else {
      node->finish(result, node);
      return result;
    }
  }
};

}  // namespace core
