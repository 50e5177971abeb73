#pragma once
// ckpt.why, diff and verify. Thread safety: the interpreter's lock. Use: bind_analysis(module);

#include <nanobind/nanobind.h>

namespace python {

void bind_analysis(nanobind::module_& module);

}  // namespace python
