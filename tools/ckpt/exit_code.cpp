#include "tools/ckpt/exit_code.h"

#include "libcore/base/text.h"

namespace cli {
namespace {

/// Messages escape the names they quote; this only keeps a stray control character from leaving the line.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return text;
}

}  // namespace

ExitCode exit_code(core::ErrorCode code) {
  using core::ErrorCode;
  switch (code) {
    case ErrorCode::usage:
    case ErrorCode::key:
    case ErrorCode::value:
      return kUsage;
    case ErrorCode::corrupt:
    case ErrorCode::refused:
    case ErrorCode::unsupported:
    case ErrorCode::collision:
      return kBad;
    case ErrorCode::io:
      return kIo;
    case ErrorCode::device:
      return kDevice;
    default:
      return kBug;
  }
}

std::string error_line(const core::Error& error) {
  std::string line = "ckpt: ";
  for (const std::string& subject : error.context()) line += core::printable(subject) + ": ";
  if (exit_code(error.code()) == kBug) line += "this is a bug of ckpt, please report it: ";
  return one_line(line + error.message());
}

}  // namespace cli
