#pragma once
// ckpt.why: a diagnosis, and the checkpoint that its plan makes. Thread safety: the interpreter's lock.
// Use: bind_diagnosis(module);

#include <nanobind/nanobind.h>

namespace python {

void bind_diagnosis(nanobind::module_& module);

}  // namespace python
