// The program `ckpt`: runs one command and turns errors into one line and an exit code.

#include "tools/ckpt/command_line.h"
#include "tools/ckpt/run_main.h"
#include "tools/support/interrupt.h"

namespace {

using namespace cli;

int run(int argc, char** argv) {
  static Context& context = *new Context();  // never destroyed, see Context::kept
  int code = parse_command_line(argc, argv)(context);
  context.out.finish();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  const int code = run_main(argc, argv, run,
                            {.out_of_memory = "out of memory; try a lower --max-memory or fewer threads (-j)",
                             .is_silent = [] { return pending_interrupt() != 0; }});  // the signal's own end says it
  finish_interrupt();
  return code;
}
