#pragma once
// ckpt zoo run FOLDER --prompt TEXT: goes on from a text with the model, tokenizer and settings of a folder.
// Thread safety: one thread. Use: return run_folder(context, options);

#include "tools/ckpt/run_main.h"
#include "tools/run/gguf_folder.h"
#include "tools/run/run_options.h"

namespace cli {

/// Exit code 0. `unpacked`: stands for the folder where options.model is a GGUF file. Errors: those of
/// zoo::from_folder(), zoo::text::Tokenizer::open() and zoo::generate(); Error(usage) for options that a folder does
/// not take and for a prompt longer than the model's context; Error(unsupported) for a model that gives no next token,
/// a tokenizer with more tokens than the model, and settings of generation_config.json that are not here.
int run_folder(Context& context, const RunOptions& options, GgufFolder* unpacked = nullptr);

/// The same with the model of a GGUF file of llama.cpp. Errors: those of GgufFolder too; all name the file.
int run_gguf(Context& context, const RunOptions& options);

}  // namespace cli
