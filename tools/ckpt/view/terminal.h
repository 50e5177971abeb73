#pragma once
// What `ckpt view` needs before anything is read.
// Thread safety: pure. Use: require_terminal();

namespace cli {

/// Error(usage) when standard input or output is no terminal, which says what shows a file elsewhere.
void require_terminal();

}  // namespace cli
