#include "tools/python/bindings/calls.h"

#include <atomic>
#include <chrono>

#include "libckpt/hint.h"
#include "libcore/base/error.h"

namespace python {
namespace {

using Clock = std::chrono::steady_clock;
using Option = ckpt::Hint::Option;

constexpr auto kPause = std::chrono::milliseconds(50);

// Both live as long as the interpreter.
PyObject* error_class = nullptr;
PyObject* warning_class = nullptr;

std::string retype_argument(const ckpt::Hint::Use& use) {
  if (!use.from || !use.to) return "retype={...}";
  return "retype={'" + std::string(core::name(*use.from)) + "': '" + std::string(core::name(*use.to)) + "'}";
}

/// How a call in Python spells an option.
std::string argument_of(const ckpt::Hint::Use& use) {
  switch (use.option) {
    case Option::lenient:
      return "lenient=True";
    case Option::allow_symlinks:
      return "allow_symlinks=True";
    case Option::unsandboxed:
      return "unsandboxed=True";
    case Option::max_expansion:
      return "max_expansion=N";
    case Option::drop_inexpressible:
      return "drop_inexpressible=True";
    case Option::retype:
      return retype_argument(use);
    case Option::part:
      return ".part('" + (use.name.empty() ? "NAME" : use.name) + "')";
    case Option::average:
    case Option::no_average:
      return "'ckpt publish --ema'";
    case Option::output:
      return "another path";
    case Option::reindex:
      return "'ckpt reindex'";
    case Option::rescue:
      return "'ckpt rescue'";
    case Option::dequantize:
      return "dequantize()";
  }
  return "";
}

std::string text_of(const core::Error& error) {
  const std::optional<ckpt::Hint> hint = ckpt::hint_of(error);
  return hint ? std::string(error.what()) + "; " + hint->say(argument_of) : error.what();
}

/// Text of a file may be no UTF-8.
nb::object text_object(const std::string& text) {
  PyObject* object = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (object == nullptr) nb::raise_python_error();
  return nb::steal(object);
}

void set_error(const core::Error& error) {
  nb::object raised = nb::borrow(error_class)(text_object(text_of(error)));
  raised.attr("code") = nb::str(std::string(core::name(error.code())).c_str());
  PyErr_SetObject(error_class, raised.ptr());
}

}  // namespace

void heed_signals() {
  nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

ckpt::Progress progress_of(nb::object show) {
  return [show = std::move(show), last = Clock::time_point()](std::uint64_t done, std::uint64_t total) mutable {
    const Clock::time_point now = Clock::now();
    if (now - last < kPause && done < total) return;
    last = now;
    nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!show.is_none()) show(done, total);
  };
}

void warn(const std::string& text) {
  nb::object message = text_object(text);
  nb::object warned = nb::module_::import_("warnings").attr("warn");
  warned(message, nb::borrow(warning_class), 1);
}

void warn(const ckpt::Report& report) {
  for (const auto* list : {&report.warnings, &report.relaxations}) {
    for (const std::string& text : *list) warn(text);
  }
  for (const std::string& text : report.dropped) warn("left out: " + text);
}

void bind_errors(nb::module_& module) {
  error_class = PyErr_NewExceptionWithDoc(
      "ckpt.Error",
      "What went wrong, in one sentence. `code` is one of 'runtime', 'value', 'type', 'index', 'key', 'attribute', "
      "'assertion', 'not_implemented' (as PyTorch's), 'usage', 'corrupt', 'refused', 'unsupported', 'collision', 'io', "
      "'device', 'internal'.",
      PyExc_Exception, nullptr);
  warning_class = PyErr_NewExceptionWithDoc("ckpt.Warning", "What a call noticed.", PyExc_UserWarning, nullptr);
  if (error_class == nullptr || warning_class == nullptr) nb::raise_python_error();
  module.attr("Error") = nb::borrow(error_class);
  module.attr("Warning") = nb::borrow(warning_class);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const core::Error& error) {
      set_error(error);
    }
  });
}

}  // namespace python
