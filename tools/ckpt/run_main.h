#pragma once
// What the programs ckpt and ckpt-run have around their work: how signals end them, and the one line and the exit code
// that whatever is thrown becomes. Thread safety: for main() alone. Use: return run_main(argc, argv, run);

namespace cli {

/// Runs `run` between getting ready for a sudden end (sudden_end.h) and the exit code.
int run_main(int argc, char** argv, int (*run)(int argc, char** argv));

}  // namespace cli
