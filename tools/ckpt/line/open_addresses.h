#pragma once
// Files on other machines for a program of ours, by the options of its command line (remote_access()). Thread safety:
// the main thread, before it starts others. Use: let_open_addresses();

namespace cli {

/// From here on open() takes addresses. REQUIRES: the command line was read.
void let_open_addresses();

}  // namespace cli
