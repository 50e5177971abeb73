#pragma once
// Exit codes of the tool, and the one line that an error becomes.
// Thread safety: pure. Use: return exit_code(error);

#include <string>

#include "libcore/base/error.h"

namespace cli {

enum ExitCode : int {
  kDone = 0,
  kNo = 1,      ///< the answer is no: they differ, a finding
  kUsage = 2,   ///< the command line makes no sense
  kBad = 3,     ///< the input is corrupt, refused or unsupported
  kIo = 4,      ///< the operating system said no
  kDevice = 5,  ///< a device is missing or failing
  kBug = 70,
};

ExitCode exit_code(core::ErrorCode code);

/// "ckpt: net.pth: what is wrong; what to do", always one line.
std::string error_line(const core::Error& error);

/// The same for programs, what a failing command prints to standard error under --json: {"schema":2,"version":...,
/// "error":{"code":"corrupt","exit":3,"message":"net.pth: what is wrong","subject":["net.pth"]}}.
std::string error_json(const core::Error& error);

/// True when the command line asks for JSON, also where it is otherwise wrong.
bool wants_json(int argc, const char* const* argv);

}  // namespace cli
