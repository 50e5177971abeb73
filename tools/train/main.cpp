// The program `train`: trains a model of the zoo on a data set or a text, resumes, evaluates, continues texts.
// See README.md in this folder. Use: train fit iris

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <new>

#include "libcore/base/error.h"
#include "tools/train/command_line.h"
#include "tools/train/processes.h"

namespace {

int exit_code(core::ErrorCode code) {
  using core::ErrorCode;
  switch (code) {
    case ErrorCode::usage:
    case ErrorCode::value:
    case ErrorCode::key:
      return 2;
    case ErrorCode::corrupt:
    case ErrorCode::refused:
    case ErrorCode::unsupported:
    case ErrorCode::collision:
      return 3;
    case ErrorCode::io:
      return 4;
    case ErrorCode::device:
    case ErrorCode::assertion:  // PyTorch's class for a device that is not there
      return 5;
    default:
      return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error like any other
  try {
    const int code = train::run_command_line(argc, argv);
    if (code == 0 && (std::fflush(stdout) != 0 || !std::cout.flush())) {
      throw core::Error(core::ErrorCode::io, std::string("standard output: ") + std::strerror(errno));
    }
    return code;
  } catch (const core::Error& error) {
    train::report_to_processes(error.what());
    std::cerr << "train: " << error.what() << '\n';
    return exit_code(error.code());
  } catch (const std::filesystem::filesystem_error& error) {
    train::report_to_processes(error.what());
    std::cerr << "train: " << error.path1().string() << ": " << error.code().message() << '\n';
    return 4;
  } catch (const std::bad_alloc&) {
    train::report_to_processes("out of memory");
    std::cerr << "train: out of memory; try a smaller --batch\n";
    return 4;
  }
}
