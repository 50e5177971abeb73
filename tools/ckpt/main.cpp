// The program `ckpt`: runs one command and turns errors into one line and an exit code.

#include <csignal>
#include <new>

#include "libcore/base/error.h"
#include "tools/ckpt/command_line.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/interrupt.h"

namespace {

using namespace cli;

int run(int argc, char** argv) {
  static Context& context = *new Context();  // never destroyed, see Context::kept
  int code = parse_command_line(argc, argv)(context);
  context.out.flush();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `ckpt ls | head` ends quietly, also under a parent that ignores it
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error like any other
  int code = kBug;
  try {
    code = run(argc, argv);
  } catch (const core::Error& error) {
    if (pending_interrupt() == 0) print_error_line(error_line(error));
    code = exit_code(error.code());
  } catch (const std::bad_alloc&) {
    print_error_line("ckpt: out of memory; try a lower --max-memory or fewer threads (-j)");
    code = kIo;
  } catch (const std::exception& error) {
    print_error_line(error_line(core::Error(core::ErrorCode::internal, error.what())));
  }
  finish_interrupt();
  return code;
}
