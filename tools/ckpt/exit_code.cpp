#include "tools/ckpt/exit_code.h"

#include <string_view>

#include "libckpt/io/json.h"
#include "libcore/base/text.h"
#include "tools/ckpt/hints.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/output/output.h"
#include "tools/ckpt/output/visible_text.h"

namespace cli {
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
  for (const std::string& subject : error.context()) line += core::printable(shown_path(subject)) + ": ";
  if (exit_code(error.code()) == kBug) line += "this is a bug of ckpt, please report it: ";
  return one_line(line + with_advice(error.message(), ckpt::hint_of(error)));
}

std::string error_json(const core::Error& error) {
  ckpt::JsonWriter json;
  json.begin_object();
  json.key("schema").value(kSchema);
  json.key("version").value(CKPT_VERSION);
  json.key("error").begin_object();
  json.key("code").value(core::name(error.code()));
  json.key("exit").value(exit_code(error.code()));
  json.key("message").value(error_line(error).substr(std::string_view("ckpt: ").size()));
  json.key("subject").begin_array();
  for (const std::string& subject : error.context()) json.value(shown_path(subject));
  json.end_array();
  json.end_object();
  json.end_object();
  return json.take();
}

bool wants_json(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--") return false;
    if (word == "--json" || word == "--jsonl") return true;
  }
  return false;
}

}  // namespace cli
