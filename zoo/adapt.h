#pragma once
// Changing a model for another task: another number of classes, other image channels, and its inner features.
// Thread safety: as core::Module. Use: zoo::swap_head(*net, 10); auto maps = zoo::features(*net, {"layer3"}, images);

#include <cstdint>
#include <string>
#include <vector>

#include "libcore/module/module.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

/// Puts a freshly drawn layer of `num_classes` in the place of the last linear layer (of the last convolution where
/// there is none), and of auxiliary heads. Keeps everything else. Gives the paths of the layers. Error(type) for a
/// model that has neither.
std::vector<std::string> swap_head(core::Module& model, std::int64_t num_classes);

/// Lets the first convolution take images of `channels` channels. One channel: its weights are summed up over the old
/// ones; more: repeated and scaled, so that grey images give what they gave. Gives the path of the layer.
/// Error(type) for a model without a convolution.
std::string change_input_channels(core::Module& model, std::int64_t channels);

/// What the modules at `paths` give in one call of the model, in the order of `paths`; "" is the model itself. A module
/// that runs several times gives its last result. Errors: Error(attribute) for a path that is not there; Error(runtime)
/// naming one that does not run or does not give one tensor.
std::vector<core::Tensor> features(core::Module& model, const std::vector<std::string>& paths, const core::Tensor& x);

}  // namespace zoo
