#pragma once
// The one error type of both libraries: a code that decides the exit status, a message, and context added on the way
// up. Thread safety: an Error is a plain value. Use: throw core::Error(core::ErrorCode::corrupt,
// "header is 12 bytes long");

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace core {

/// What kind of failure an Error is. The first block are the classes PyTorch raises in the same situation; the second
/// is what files and devices can do.
enum class ErrorCode {
  runtime,          ///< RuntimeError
  value,            ///< ValueError
  type,             ///< TypeError
  index,            ///< IndexError
  key,              ///< KeyError
  attribute,        ///< AttributeError
  assertion,        ///< AssertionError
  not_implemented,  ///< NotImplementedError
  usage,            ///< the caller asked for something that makes no sense (a bad option)
  corrupt,          ///< the bytes contradict themselves or are cut off
  refused,          ///< well-formed, but outside what is accepted (a foreign pickle global, a limit)
  unsupported,      ///< known, but not handled (a format or dtype)
  collision,        ///< two keys, or two files, would become one
  io,               ///< the operating system said no
  device,           ///< a device is missing, out of memory or failing
  internal,         ///< a bug of ours
};

/// Name of the Python exception class for the first block ("RuntimeError"), "RuntimeError" for the rest.
std::string_view python_name(ErrorCode code);
/// Name of the code itself, for programs: "corrupt", "io", "not_implemented".
std::string_view name(ErrorCode code);

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message);

  ErrorCode code() const noexcept { return code_; }
  /// The message as first thrown, without context.
  const std::string& message() const noexcept { return message_; }
  /// Context from the outermost to the innermost, each a subject such as a path or a key.
  const std::vector<std::string>& context() const noexcept { return context_; }
  /// "outer: inner: message".
  const char* what() const noexcept override { return what_.c_str(); }

  /// Puts `subject` in front of everything said so far, unless it stands there already (a file that names its path may
  /// be used by a function that does the same). Call it from a catch block by reference and rethrow.
  Error& add_context(std::string subject);

 private:
  ErrorCode code_;
  std::string message_;
  std::vector<std::string> context_;
  std::string what_;
};

/// Runs `body`; an Error that leaves it gets `subject` as context.
template <class Body>
decltype(auto) with_context(std::string_view subject, Body&& body) {
  try {
    return body();
  } catch (Error& error) {
    error.add_context(std::string(subject));
    throw;
  }
}

}  // namespace core
