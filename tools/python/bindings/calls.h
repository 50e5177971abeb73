#pragma once
// Calls of the library from Python: without the interpreter's lock, open to Ctrl-C, and with its errors and warnings as
// Python's. Thread safety: each function says which thread holds the lock. Use:
// without_lock([&] { return ckpt::open(path, options); });

#include <nanobind/nanobind.h>

#include <string>
#include <utility>

#include "libckpt/report.h"

namespace nb = nanobind;

namespace python {

/// What `call` returns; other Python threads run meanwhile. REQUIRES: the lock is held, and `call` touches no object of
/// Python.
template <class Call>
decltype(auto) without_lock(Call&& call) {
  nb::gil_scoped_release released;
  return std::forward<Call>(call)();
}

/// Raises what a signal handler of Python raises, such as KeyboardInterrupt. REQUIRES: the lock is not held.
void heed_signals();

/// A Progress that heeds signals about twenty times a second, and calls `show(done, total)` unless that is None. To be
/// used without the lock; destroyed with it.
ckpt::Progress progress_of(nb::object show);

/// Warns of all that a report holds, as ckpt.Warning. REQUIRES: the lock is held. May raise, as warnings do when they
/// are turned into errors.
void warn(const ckpt::Report& report);
void warn(const std::string& text);

/// ckpt.Error with `.code`, for every core::Error; and ckpt.Warning.
void bind_errors(nb::module_& module);

}  // namespace python
