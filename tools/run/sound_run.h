#pragma once
// ckpt zoo run FOLDER speech.wav: what a folder of Whisper writes about a sound, as `generate` of transformers does it
// for up to half a minute. Thread safety: one thread. Use: if (takes_sounds(options)) return run_sounds(context,
// options);

#include "tools/ckpt/run_main.h"
#include "tools/run/run_options.h"

namespace cli {

/// Whether the folder's model listens, and no --prompt was given.
bool takes_sounds(const RunOptions& options);

/// Exit code 0. Errors: those of zoo::from_folder(), zoo::read_log_mel(), read_sound() and zoo::generate_about();
/// Error(usage) for options that such a folder does not take, without a sound, and for a language or task that it does
/// not have; Error(unsupported) for settings of generation_config.json that are not here.
int run_sounds(Context& context, const RunOptions& options);

}  // namespace cli
