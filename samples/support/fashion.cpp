#include "samples/support/fashion.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "libcore/autograd/grad_mode.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"

namespace samples {
namespace {
constexpr std::int64_t kPixels = 28 * 28;
constexpr std::int64_t kEvaluationBatch = 500;
}  // namespace

using core::Tensor;

FashionMnist::FashionMnist(zoo::ImageSet set, std::int64_t rows) : set_(std::move(set)), rows_(set_.labels.shape[0]) {
  if (rows > 0) rows_ = std::min(rows, rows_);
}

std::tuple<Tensor, Tensor> FashionMnist::get(std::int64_t index) const {
  std::array<std::int64_t, 1> one = {index};
  auto [images, labels] = get_batch(one);
  return {images[0], labels[0]};
}

std::tuple<Tensor, Tensor> FashionMnist::get_batch(std::span<const std::int64_t> indices) const {
  auto n = static_cast<std::int64_t>(indices.size());
  Tensor images = core::empty({n, 1, 28, 28});
  Tensor labels = core::empty({n}, {.dtype = core::DType::i64});
  float* pixel = images.mutable_data<float>();
  std::int64_t* label = labels.mutable_data<std::int64_t>();
  for (std::int64_t index : indices) {
    const std::uint8_t* from = set_.images.values.data() + index * kPixels;
    pixel = std::transform(from, from + kPixels, pixel,
                           [](std::uint8_t value) { return static_cast<float>(value) / 255.0F; });
    *label++ = set_.labels.values[static_cast<std::size_t>(index)];
  }
  return {images, labels};
}

std::int64_t count_right(const FashionMnist& data, const std::function<Tensor(const Tensor&)>& forward) {
  core::NoGradGuard no_grad;
  std::int64_t right = 0;
  std::vector<std::int64_t> indices;
  for (std::int64_t begin = 0; begin < data.size(); begin += kEvaluationBatch) {
    indices.resize(static_cast<std::size_t>(std::min(kEvaluationBatch, data.size() - begin)));
    std::iota(indices.begin(), indices.end(), begin);
    auto [images, labels] = data.get_batch(indices);  // (n, 1, 28, 28), (n)
    Tensor best = forward(images).cpu().argmax(1);    // (n)
    right += best.eq(labels).sum().item<std::int64_t>();
  }
  return right;
}

}  // namespace samples
