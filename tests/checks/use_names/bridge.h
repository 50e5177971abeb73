#pragma once
// What the `Use:` lines of libckpt/bridge take as given: a model in training, and what holds its bytes.

#include "libckpt/bridge.h"
#include "libcore/core.h"

namespace user {

extern core::Linear model, plain;
extern core::SGD optimizer;
extern double best;
void train();

extern const core::Tensor tensor;
extern core::Backend& device;
extern const ckpt::SourcePtr source;
extern void* to;
extern const std::uint64_t bytes;

}  // namespace user
