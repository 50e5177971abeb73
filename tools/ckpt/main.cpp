// The program `ckpt`: runs one command and turns errors into one line and an exit code.

#include <malloc.h>

#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/command_line.h"
#include "tools/ckpt/line/missing_file.h"
#include "tools/ckpt/line/open_addresses.h"
#include "tools/ckpt/line/options.h"
#include "tools/ckpt/run_main.h"
#include "tools/ckpt/sudden_end.h"

namespace {

using namespace cli;

int run(int argc, char** argv) {
  static Context& context = *new Context();  // never destroyed, see Context::kept
  try {
    Command command = parse_command_line(argc, argv);
    let_open_addresses();
    int code = command(context);
    context.out.finish();
    return code;
  } catch (const core::Error& error) {
    if (std::optional<core::Error> guess = file_guess(error)) throw *guess;
    throw;
  }
}

/// Else a command of milliseconds asks the system for memory dozens of times, with very many tensors hundreds of times.
/// Each pool keeps what is freed; of one for every thread that would be more than --max-memory allows.
void keep_memory() {
  ::mallopt(M_ARENA_MAX, 8);
  ::mallopt(M_MMAP_THRESHOLD, 4 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 64 << 20);
  ::mallopt(M_TOP_PAD, 16 << 20);
}

/// Before the libraries are initialised, which allocates too.
void get_ready(int argc, char** argv, char** /*environment*/) {
  keep_memory();
  end_by_line_when_out_of_memory({.out_of_memory = "out of memory; try a lower --max-memory or fewer threads (-j)",
                                  .json = wants_json(argc, argv)});
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const kFirst)(int, char**, char**) = get_ready;

}  // namespace

int main(int argc, char** argv) {
  return run_main(argc, argv, run);
}
