#pragma once
// stack_layers: a deeper (or shorter) model from runs of layers of several models, or of one several times: what
// mergekit calls passthrough. Tensors are not computed with; names get new numbers. Thread safety: pure. Use:
// ckpt::Checkpoint deep = ckpt::stack_layers({a, b}, {.layers = {{0, 16}, {8, 24}}});

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"

namespace ckpt {

struct StackLayersOptions {
  /// One run a checkpoint: the first layer and the one behind the last.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> layers = {};
  std::vector<std::string> at = {};  ///< which state dict of each; one for all, or one a checkpoint
};

struct StackLayersReport {
  std::string numbered;                     ///< what stands before the numbers: "model.layers."
  std::uint64_t layers = 0;                 ///< of the result
  std::vector<std::string> differing = {};  ///< tensors outside of layers that are not the same in all files
};

/// The state dict of the first checkpoint with other layers. Layers are the numbers behind the name that has most
/// tensors below it ("model.layers.0.…", "transformer.h.0.…"). What is no layer is the first checkpoint's. Errors:
/// Error(usage) when runs and checkpoints differ in number, or a run is empty; Error(key) for a checkpoint without
/// numbered layers, or with fewer than a run asks for; Error(refused) when the layers of the checkpoints have other
/// tensors or shapes.
Checkpoint stack_layers(const std::vector<Checkpoint>& checkpoints, const StackLayersOptions& options,
                        StackLayersReport* report = nullptr);

}  // namespace ckpt
