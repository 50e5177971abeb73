#pragma once
// Standard input as a file: checkpoints are read by offset, so what comes through a pipe is copied to a temporary file
// without a name, which the system removes whatever happens. Thread safety: one thread.
// Use: ckpt::open(spool_standard_input());

#include <string>

namespace cli {

/// A path that opens standard input as a regular file as long as the program runs; later calls return the same one.
/// Errors: Error(usage) when it is a terminal; Error(io) when it cannot be read, or there is no room for its copy.
std::string spool_standard_input();

/// Where large temporary files go: $TMPDIR, else /var/tmp, else /tmp.
std::string temporary_folder();

/// What spool_standard_input() returned, "" before.
const std::string& standard_input_path();

}  // namespace cli
