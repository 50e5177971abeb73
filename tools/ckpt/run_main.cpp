#include "tools/ckpt/run_main.h"

#include <csignal>
#include <new>

#include "libcore/base/error.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/output.h"

namespace cli {
namespace {

int fail(const core::Error& error, bool json) {
  print_error_line(json ? error_json(error) : error_line(error));
  return exit_code(error.code());
}

}  // namespace

int run_main(int argc, char** argv, int (*run)(int argc, char** argv), const MainRules& rules) {
  std::signal(SIGPIPE, SIG_DFL);  // `ckpt ls | head` ends quietly, also under a parent that ignores it
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error like any other
  const bool json = wants_json(argc, argv);
  try {
    return run(argc, argv);
  } catch (const core::Error& error) {
    return rules.is_silent() ? exit_code(error.code()) : fail(error, json);
  } catch (const std::bad_alloc&) {
    return fail({core::ErrorCode::io, rules.out_of_memory}, json);
  } catch (const std::exception& error) {
    return fail({core::ErrorCode::internal, error.what()}, json);
  }
}

}  // namespace cli
