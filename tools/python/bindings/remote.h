#pragma once
// Files on other machines for Python: on from the start, as libcurl is opened at the first request alone.
// Thread safety: the interpreter's lock. Use: bind_remote(module);

#include <nanobind/nanobind.h>

namespace python {

void bind_remote(nanobind::module_& module);

}  // namespace python
