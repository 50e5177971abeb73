#pragma once
// CopySlices: the history of a tensor after one of its views was changed in place. Internal to autograd.
// The gradient outside the view passes on to the earlier history; inside it goes through the in-place operation's node.

#include "libcore/autograd/node.h"

namespace core {

class CopySlices final : public Node {
 public:
  /// `operation`: the node of the in-place operation, whose first edge is the view.
  CopySlices(const Tensor& base, const Tensor& view, IntrusivePtr<Node> operation);
  std::string_view name() const override { return "torch::autograd::CopySlices"; }
  TensorList apply(TensorList grads) override;
  void release_saved() override { operation_->release_saved(); }

 private:
  Shape base_sizes_, base_strides_, view_sizes_, view_strides_;
  std::int64_t offset_;
  IntrusivePtr<Node> operation_;
};

}  // namespace core
