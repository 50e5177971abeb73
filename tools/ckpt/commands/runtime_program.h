#pragma once
// Commands that need the runtime are done by the program ckpt-run, so that ckpt itself starts without a compute
// library. Thread safety: one thread; does not return. Use: chosen = [words](Context&) { return run_runtime(words); };

#include <filesystem>
#include <string>
#include <vector>

namespace cli {

/// $CKPT_RUN; else ckpt-run beside this program, in ../libexec/ckpt from there, where it was to be installed, in the
/// build tree. Errors: Error(unsupported) that says where it was looked for, or that $CKPT_RUN names none.
std::filesystem::path find_runtime_program();

/// Becomes ckpt-run with these words. Errors: those of find_runtime_program(); Error(io) when it cannot be started.
[[noreturn]] void become_runtime_program(const std::vector<std::string>& words);

}  // namespace cli
