#pragma once
// The layers of a Keras file by kind, with their weights in the roles that Keras has for them. Internal to
// libckpt/keras.
// Thread safety: pure. Use: KerasLayers found = keras_layers(checkpoint, config);

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/keras/keras_config.h"

namespace ckpt::detail {

struct KerasWeight {
  std::string role;  ///< "kernel", "moving_mean"; "" where the kind does not say
  std::string key;   ///< as the file has it
  core::Shape shape;
  bool floating = true;
  std::uint64_t number = 0;  ///< of "vars.1", where the role has to be found by it
};

struct KerasLayer {
  std::string kind;                   ///< "Conv2D"; "" where nothing says it
  std::string module;                 ///< the path of its module in torch: "encoder.conv1"
  bool backward = false;              ///< of Bidirectional: the direction from the end
  bool both = false;                  ///< of Bidirectional: either
  const KerasNode* node = nullptr;    ///< null where the file has no configuration
  const KerasNode* parent = nullptr;  ///< the model that it is a layer of
  const KerasNode* holder = nullptr;  ///< the Bidirectional or TimeDistributed that is a layer of it in its place
  std::vector<KerasWeight> weights = {};

  const KerasWeight* find(std::string_view role) const;
};

struct KerasLayers {
  std::vector<KerasLayer> layers;
  std::vector<std::string> states;  ///< keys of what is no weight: optimizers, generators of random numbers
  std::vector<std::string> others;  ///< keys that no layer is known for
  bool counted = false;             ///< names of Keras 3 ("layers.conv2d_3.vars.0"), not those of .h5 files before
};

/// `config` may be null, and is what the layers point into.
KerasLayers keras_layers(const Checkpoint& checkpoint, const KerasNode* config);

}  // namespace ckpt::detail
