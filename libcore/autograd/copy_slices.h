#pragma once
// CopySlices: the history of a tensor after one of its views was changed in place. Internal to autograd.
// The gradient outside the view passes on to the earlier history; inside it goes through the in-place operation's node.

#include "libcore/autograd/conjugates.h"
#include "libcore/autograd/node.h"

namespace core {
namespace detail {
/// The memory of `whole` as elements of a view's type: pairs of real numbers as complex ones, or the other way round.
Tensor as_elements_of(const Tensor& whole, DType view);
}  // namespace detail

class CopySlices final : public Node, public detail::FollowsConvention {
 public:
  /// `operation`: the node of the in-place operation, whose first edge is the view.
  CopySlices(const Tensor& base, const Tensor& view, IntrusivePtr<Node> operation);
  std::string_view name() const override { return "torch::autograd::CopySlices"; }
  TensorList apply(TensorList grads) override;
  void release_saved() override { operation_->release_saved(); }

 private:
  Shape base_sizes_, base_strides_, view_sizes_, view_strides_;
  std::int64_t offset_;  // from where the base begins, in elements of the view
  DType view_dtype_;     // not that of the base for a view of complex numbers as real ones, or of real ones as complex
  IntrusivePtr<Node> operation_;
};

}  // namespace core
