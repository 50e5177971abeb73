#pragma once
// Rules for a Keras model of anybody's, by the kinds of its layers: Dense is Linear, Conv2D is Conv2d, LSTM is LSTM
// with its gates where torch has them. Names are those that the layers have in Keras; what the file says of them
// (config.json of .keras, model_config of .h5) counts before what names and shapes say. Thread safety: pure. Use:
// ckpt::Checkpoint torch = ckpt::from_keras(checkpoint, ckpt::keras_rules(checkpoint));

#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/transform/rules.h"

namespace ckpt {

struct KerasRules {
  Rules rules;  ///< may be turned round where `numbered`
  /// Tensors that are no weights, which torch's model has no place for: states of optimizers and of random numbers.
  std::vector<std::string> states;
  std::vector<std::string> left;   ///< tensors that stay as they are
  std::vector<std::string> notes;  ///< one sentence each: what names and layouts do not say, and why some stay
  std::size_t layers = 0;          ///< that rules are for
  bool numbered = false;           ///< the file has names of Keras 3, which Keras loads again
};

/// Error(key) where no tensor has a name that Keras gives, and where no layer is one of torch's.
KerasRules keras_rules(const Checkpoint& keras);

/// The state dict of torch's layers: without `states`, and with the notes kept in it (origin.h). Errors: those of
/// apply_rules().
Checkpoint from_keras(const Checkpoint& keras, const KerasRules& way);

/// The way back: what a model has that was saved as `like` by Keras 3, with `like`'s states of random numbers. Counters
/// of batches go. Errors: Error(unsupported) where `like` has other names than those of Keras 3; Error(value) naming a
/// tensor of `like` that the state dict has not, or has in another shape; those of keras_rules() and apply_rules().
Checkpoint to_keras(const Checkpoint& torch, const Checkpoint& like);

}  // namespace ckpt
