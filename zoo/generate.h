#pragma once
// Texts continued as transformers' `generate` does it: the top token, a drawn one, or the best of several beams.
// Thread safety: none; sampling draws from the default generator.
// Use: std::vector<std::int64_t> added = zoo::generate(*net, {15496, 11}, {.max_new_tokens = 5});

#include <cstdint>
#include <functional>
#include <vector>

#include "libcore/base/device.h"
#include "libcore/module/module.h"
#include "libcore/tensor/tensor.h"

namespace zoo {

struct GenerateOptions {
  std::int64_t max_new_tokens = 20;
  /// Draw by probability instead of taking the top token; the next three are for this alone.
  bool sample = false;
  double temperature = 1;  ///< above 0
  std::int64_t top_k = 0;  ///< the likeliest ones that are drawn from; 0: all
  double top_p = 1;        ///< the likeliest ones that together have this probability
  double repetition_penalty = 1;
  std::int64_t beams = 1;
  double length_penalty = 1;       ///< of beams: their score is divided by their length to the power of it
  std::vector<std::int64_t> ends;  ///< tokens that end a text; they are part of it
  /// With which an EncoderDecoder (decoder.h) begins what it writes about the prompt; at least one.
  std::vector<std::int64_t> begin = {0};
  std::vector<std::int64_t> suppressed;        ///< tokens that never come
  std::vector<std::int64_t> suppressed_first;  ///< tokens that do not come first behind `begin`
  core::Device device = {};                    ///< where the model is
};

/// Asked after each token, with all that were added; true ends the text there. Of beams, asked of each.
using StopAfter = std::function<bool(const std::vector<std::int64_t>& added)>;
/// Told each token as soon as it is sure: with one beam at once, with several at the end.
using OnToken = std::function<void(std::int64_t token)>;

/// Error(usage) for options outside their range, and for sampling with beams.
void check_options(const GenerateOptions& options);

/// The added tokens; of an EncoderDecoder what it writes about the prompt. Errors: Error(usage) for an empty prompt,
/// options outside their range, sampling with beams, and models that continue no texts.
std::vector<std::int64_t> generate(core::Module& model, const std::vector<std::int64_t>& prompt,
                                   const GenerateOptions& options, const StopAfter& stop = {},
                                   const OnToken& on_token = {});

/// The same of an EncoderDecoder that reads something else than tokens, such as the spectrum of a sound.
std::vector<std::int64_t> generate_about(core::Module& model, const core::Tensor& source,
                                         const GenerateOptions& options, const StopAfter& stop = {},
                                         const OnToken& on_token = {});

/// Scores (n, tokens) with the repetition penalty for what stands in `rows` and, where tokens are drawn, divided by the
/// temperature; what top_k, top_p and the suppressed tokens leave out is minus infinity.
core::Tensor processed_scores(const core::Tensor& scores, const std::vector<std::vector<std::int64_t>>& rows,
                              const GenerateOptions& options);

}  // namespace zoo
