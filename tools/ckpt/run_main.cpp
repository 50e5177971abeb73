#include "tools/ckpt/run_main.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <new>
#include <system_error>

#include "libcore/base/error.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/output/output.h"
#include "tools/ckpt/sudden_end.h"

namespace cli {
namespace {

int fail(const core::Error& error, bool json) {
  print_error_line(json ? error_json(error) : error_line(error));
  return exit_code(error.code());
}

/// What the system refused, most often: a thread, a look at a folder.
int fail_of_system(const std::system_error& error, bool json) {
  if (error.code() == std::errc::not_enough_memory) end_out_of_memory();
  return fail({core::ErrorCode::io, error.what()}, json);
}

/// A stream that the parent closed would be the number of the next file that is opened, and a line on standard error
/// would go into a checkpoint. What stands in its place can be neither read nor written.
void occupy_closed_streams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one. O_PATH: neither reading nor writing.
    (void)!::open("/", O_PATH | O_DIRECTORY);
  }
}

}  // namespace

int run_main(int argc, char** argv, int (*run)(int argc, char** argv)) {
  occupy_closed_streams();
  end_cleanly_on_signals();
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error like any other
  const bool json = wants_json(argc, argv);
  try {
    return run(argc, argv);
  } catch (const core::Error& error) {
    return fail(error, json);
  } catch (const std::bad_alloc&) {
    end_out_of_memory();
  } catch (const std::system_error& error) {
    return fail_of_system(error, json);
  } catch (const std::exception& error) {
    return fail({core::ErrorCode::internal, error.what()}, json);
  }
}

}  // namespace cli
