#pragma once
// What a pass over a batch takes beside the weights: for `ckpt plan --batch`, which starts ckpt-run for it.
// Thread safety: one thread; makes the process' devices logical ones. Use: return run_zoo_activations(context,
// options);

#include "tools/ckpt/line/command_line.h"
#include "tools/run/run_options.h"

namespace cli {

struct ActivationOptions {
  std::string name;         ///< known model, or folder with config.json
  std::int64_t batch = 1;   ///< samples that go through the model at once
  std::int64_t size = 0;    ///< height and width of images; 0: what the model expects
  std::int64_t length = 0;  ///< tokens of a text; 0: 512, or as many as the model has positions for
  std::string dtype;        ///< of the weights; "": the folder's, or float32
  std::string amp;          ///< type that autocast computes in; "": none
  bool train = false;       ///< keep what backward needs, and run it
};

/// `ckpt-run zoo activations`, which no help shows.
CommandSpec define_zoo_activations(CommandSpec zoo, ActivationOptions& options);

/// Prints JSON: what was put in, bytes that backward needs and bytes in between. The values of the weights are zeros in
/// memory that all of them share, so that a model needs no memory of its own. Exit code 0. Errors: Error(usage) for a
/// name that is neither a known model nor a folder, and a size that is not of its input; Error(unsupported) for a model
/// that takes neither one image nor one text; those of building the model and of its forward.
int run_zoo_activations(Context& context, const ActivationOptions& options);

}  // namespace cli
