#include "tools/ckpt/view/terminal.h"

#include <unistd.h>

#include "libcore/base/error.h"

namespace cli {

void require_terminal() {
  if (::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1) return;
  throw core::Error(core::ErrorCode::usage,
                    "view needs a terminal for its input and output; 'ckpt tree', 'ckpt ls' and 'ckpt diff' print the "
                    "same for files and pipes");
}

}  // namespace cli
