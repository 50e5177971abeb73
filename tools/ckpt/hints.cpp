#include "tools/ckpt/hints.h"

namespace cli {
namespace {

using Option = ckpt::Hint::Option;

std::string retype_flag(const ckpt::Hint::Use& use) {
  if (!use.from || !use.to) return "--retype OLD=NEW";
  return "--retype " + std::string(core::short_name(*use.from)) + "=" + std::string(core::short_name(*use.to));
}

std::string flag_of(const ckpt::Hint::Use& use) {
  switch (use.option) {
    case Option::lenient:
      return "--lenient";
    case Option::allow_symlinks:
      return "--allow-symlinks";
    case Option::unsandboxed:
      return "--unsandboxed";
    case Option::max_expansion:
      return "--max-expansion";
    case Option::drop_inexpressible:
      return "--drop";
    case Option::retype:
      return retype_flag(use);
    case Option::part:
      return "FILE::" + (use.name.empty() ? "NAME" : use.name);
    case Option::average:
      return "--ema";
    case Option::no_average:
      return "--ema off";
    case Option::output:
      return "-o";
    case Option::reindex:
      return "'ckpt reindex'";
    case Option::rescue:
      return "'ckpt rescue'";
    case Option::dequantize:
      return "'ckpt convert --dequantize'";
  }
  return "";
}

}  // namespace

std::string with_advice(const std::string& text, const std::optional<ckpt::Hint>& hint) {
  return hint ? text + "; " + hint->say(flag_of) : text;
}

}  // namespace cli
