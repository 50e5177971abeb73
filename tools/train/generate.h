#pragma once
// Continuing a text with a trained model of characters.
// Thread safety: draws from the default generator. Use: std::string text = train::generate(*model, symbols, {...});

#include <cstdint>
#include <string>

#include "libcore/module/module.h"
#include "tools/train/text_data.h"

namespace train {

struct GenerateOptions {
  std::string prompt = {};  ///< what the text begins with; "": the first symbol
  std::int64_t length = 200;
  double temperature = 1;  ///< below 1: the likely characters more often; 0: always the likeliest
  std::int64_t top_k = 0;  ///< draw from the k likeliest alone; 0: from all
};

/// The prompt and what follows. `model` is a zoo::CharLSTM or a zoo::NanoGPT. Errors: Error(usage) for a prompt with
/// characters that the model has never seen, and for numbers out of range.
std::string generate(core::Module& model, const Symbols& symbols, const GenerateOptions& options);

}  // namespace train
