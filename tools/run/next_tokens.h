#pragma once
// Text models: the prompt as token ids, the logits of what comes next, and going on by drawing from them.
// Thread safety: one thread; draws from the default generator. Use: Generated g = generate(model, prompt, options);

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tools/run/run_model.h"
#include "zoo/generate.h"

namespace cli {

/// Token ids "15496, 11, 995". Empty when the text is anything but whole numbers between commas or spaces.
std::vector<std::int64_t> ids_in(std::string_view text);

/// Token ids, or text where the model has a vocabulary. Tensor (1, t). Error(usage) for a text without a
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

/// `defaults` with what the options say in their place.
zoo::GenerateOptions generate_options(const RunOptions& options, zoo::GenerateOptions defaults);
/// Whether the text of the added tokens has one of `stops` in it. Null without any.
using TextOf = std::function<std::string(const std::vector<std::int64_t>& added)>;
zoo::StopAfter stop_after(const std::vector<std::string>& stops, TextOf text_of);

/// options.generate tokens, as zoo::generate() draws them with options.seed; the last tokens that the model has
/// positions for are what it looks at. `prompt`: (1, t). Error(usage) for several rows.
Generated generate(RunModel& model, const core::Tensor& prompt, const RunOptions& options);

}  // namespace cli
