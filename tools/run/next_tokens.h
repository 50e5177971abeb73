#pragma once
// Text models: the prompt as token ids, the logits of what comes next, and going on by drawing from them.
// Thread safety: one thread; draws from the default generator. Use: Generated g = generate(model, prompt, options);

#include <cstdint>
#include <string>
#include <vector>

#include "tools/run/run_model.h"

namespace cli {

/// Token ids "15496, 11, 995"; text where the model has a vocabulary. Tensor (1, t). Error(usage) for a text without a
/// vocabulary.
ModelInput read_prompt(const std::string& prompt, RunModel& model);

/// (n, t, tokens) -> (tokens) of the last position of the only row; for BERT, with the tokens at hand, of the first
/// hidden one ([MASK], 103), the last where there is none. Any other shape comes back as it is.
core::Tensor next_token_logits(const core::Tensor& output, const core::Tensor& tokens);

struct Generated {
  std::vector<std::int64_t> tokens;  ///< added ones
  std::string text;                  ///< prompt and added ones, where there is a vocabulary
  /// The text without control characters but line ends and tabs, or the ids separated by commas.
  std::string shown() const;
};

/// options.generate tokens, each drawn from the softmax of logits / temperature with options.seed; the last tokens that
/// the model has positions for are what it looks at. `prompt`: (1, t). Error(usage) for several rows.
Generated generate(RunModel& model, const core::Tensor& prompt, const RunOptions& options);

}  // namespace cli
