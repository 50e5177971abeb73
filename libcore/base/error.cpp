#include "libcore/base/error.h"

#include <iterator>
#include <utility>

namespace core {

std::string_view python_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::value:
      return "ValueError";
    case ErrorCode::type:
      return "TypeError";
    case ErrorCode::index:
      return "IndexError";
    case ErrorCode::key:
      return "KeyError";
    case ErrorCode::attribute:
      return "AttributeError";
    case ErrorCode::assertion:
      return "AssertionError";
    case ErrorCode::not_implemented:
      return "NotImplementedError";
    default:
      return "RuntimeError";
  }
}

std::string_view name(ErrorCode code) {
  static constexpr std::string_view kNames[] = {
      "runtime", "value",   "type",    "index",       "key",       "attribute", "assertion", "not_implemented",
      "usage",   "corrupt", "refused", "unsupported", "collision", "io",        "device",    "internal"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(ErrorCode::internal) + 1);
  return kNames[static_cast<std::size_t>(code)];
}

Error::Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)), what_(message_) {}

Error& Error::add_context(std::string subject) {
  if (!context_.empty() && context_.front() == subject) return *this;
  what_ = subject + ": " + what_;
  context_.insert(context_.begin(), std::move(subject));
  return *this;
}

}  // namespace core
