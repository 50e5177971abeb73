#pragma once
// Fashion-MNIST as a dataset of (image, label) batches, and the accuracy of a model on it.
// Thread safety: reading. Use: samples::FashionMnist data(zoo::fashion_mnist("train")); core::DataLoader(data, {...});

#include <cstdint>
#include <functional>
#include <span>
#include <tuple>
#include <vector>

#include "libcore/tensor/tensor.h"
#include "zoo/data/idx.h"

namespace samples {

class FashionMnist {
 public:
  /// The first `rows` items, all when 0 or more than there are. Pixels become value / 255.
  explicit FashionMnist(zoo::ImageSet set, std::int64_t rows = 0);

  std::int64_t size() const { return rows_; }
  /// Image (1, 28, 28) f32 and label (0-dim i64).
  std::tuple<core::Tensor, core::Tensor> get(std::int64_t index) const;
  /// Images (n, 1, 28, 28) f32 and labels (n) i64.
  std::tuple<core::Tensor, core::Tensor> get_batch(std::span<const std::int64_t> indices) const;

 private:
  zoo::ImageSet set_;
  std::int64_t rows_;
};

/// How many labels `forward` puts first, over the whole set, in order, without gradients. `forward` takes images on the
/// CPU (n, 1, 28, 28) and gives logits (n, 10).
std::int64_t count_right(const FashionMnist& data, const std::function<core::Tensor(const core::Tensor&)>& forward);

}  // namespace samples
