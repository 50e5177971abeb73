// ckpt._ckpt: the library for Python. What the package shows is in ckpt/__init__.py.

#include <nanobind/nanobind.h>

#include "tools/python/bindings/analysis.h"
#include "tools/python/bindings/calls.h"
#include "tools/python/bindings/checkpoint.h"
#include "tools/python/bindings/diagnosis.h"
#include "tools/python/bindings/remote.h"
#include "tools/python/bindings/tensor.h"
#include "tools/python/bindings/values.h"

NB_MODULE(_ckpt, module) {
  module.attr("__version__") = CKPT_VERSION;
  python::bind_errors(module);
  python::bind_tensor(module);
  python::bind_values(module);
  python::bind_checkpoint(module);
  python::bind_diagnosis(module);
  python::bind_analysis(module);
  python::bind_remote(module);
}
