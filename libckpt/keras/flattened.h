#pragma once
// What Flatten makes of images: Keras has the channels last there, torch before the places. Internal to libckpt/keras.
// Thread safety: pure. Use: Flattened seen = flattened_before(layer, &root, layers);

#include <cstdint>
#include <vector>

#include "libckpt/keras/keras_layers.h"

namespace ckpt::detail {

struct Flattened {
  bool flat = false;          ///< a dense layer sees the result of a Flatten
  std::int64_t channels = 0;  ///< of what that flattens; 0 where the file does not say, or torch has them last too
  bool known = true;          ///< false: there may be channels, and the file does not say how many
};

/// By the configuration under `root`, which may be null, along the inputs from `layer` to the layer that made the
/// channels.
Flattened flattened_before(const KerasLayer& layer, const KerasNode* root, const std::vector<KerasLayer>& layers);

}  // namespace ckpt::detail
