#pragma once
// What the `Use:` lines of libcore take as given: tensors, data, and a model in training.

#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "libcore/core.h"
#include "libcore/tensorboard.h"

namespace user {

extern core::Tensor x, y, w, a, b, c, h, mask;
extern core::Tensor q, k, v;                         // of attention
extern core::Tensor indices, index, values, table;   // of rows
extern core::Tensor scores, logits, labels, target;  // of a classifier
extern core::Tensor image, images, points, source, input, next, loss;
extern std::vector<core::Tensor> tensors, matrices, result;
extern core::RecurrentWeights weights;
extern bool is_training;

struct Net : core::ModuleOf<Net> {
  core::Conv2d conv;
  core::BatchNorm2d bn;
  Net(std::int64_t in, std::int64_t out);
  void members(core::Members& m) override;
  core::Tensor forward(const core::Tensor& x);
};
extern Net model, net;
extern core::Embedding embedding;
extern core::CrossEntropyLoss criterion;
extern core::SGD optimizer;
extern core::ParamGroup group;
extern std::vector<core::ParamGroup> groups;
core::Tensor block(const core::Tensor& x);
core::Tensor train_step(const core::Tensor& batch);

using Sample = std::pair<core::Tensor, core::Tensor>;
struct Pairs {
  std::int64_t size() const;
  Sample get(std::int64_t i) const;
};
extern const Pairs data, train, extra;
extern core::DataLoader<Pairs> loader;
extern Sample old;
extern std::int64_t i;
extern core::BatchStream batches;  // the indices of each
extern std::function<core::detail::WorkerPool<core::Tensor>::Fetch()> make_fetch;

extern core::Device device;
extern std::vector<core::Device> devices;
extern std::vector<std::shared_ptr<Net>> replicas;
extern std::vector<std::tuple<core::Tensor>> inputs;
extern std::tuple<core::Tensor, double> args;
extern core::Backend& backend;
extern core::cuda::Stream side;
extern core::Generator generator;
extern std::byte* out;
extern std::int64_t n;
extern std::size_t bytes;

}  // namespace user
