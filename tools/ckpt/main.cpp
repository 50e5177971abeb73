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
  context.out.finish();
  return code;
}

int fail(const core::Error& error, bool json) {
  print_error_line(json ? error_json(error) : error_line(error));
  return exit_code(error.code());
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_DFL);  // `ckpt ls | head` ends quietly, also under a parent that ignores it
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error like any other
  bool json = wants_json(argc, argv);
  int code = kBug;
  try {
    code = run(argc, argv);
  } catch (const core::Error& error) {
    code = pending_interrupt() == 0 ? fail(error, json) : exit_code(error.code());
  } catch (const std::bad_alloc&) {
    code = fail({core::ErrorCode::io, "out of memory; try a lower --max-memory or fewer threads (-j)"}, json);
  } catch (const std::exception& error) {
    code = fail({core::ErrorCode::internal, error.what()}, json);
  }
  finish_interrupt();
  return code;
}
