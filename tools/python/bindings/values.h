#pragma once
// A checkpoint's tree as Python data and back: dict, OrderedDict, list, tuple, numbers and texts, with ckpt.Tensor for
// each tensor and ckpt.Object for what is neither. Thread safety: the interpreter's lock. Use:
// nb::object tree = to_python(checkpoint.root); ckpt::Value root = to_value(tree, leaf);

#include <nanobind/nanobind.h>

#include "libckpt/value.h"

namespace python {

/// An object of Python's or a library's that the file names; nothing of it is executed.
struct Object {
  ckpt::Value value;
};

nanobind::object to_python(const ckpt::Value& value);

/// `leaf` is asked for whatever is no plain data: it gives a Tensor, an Object, plain data, or NotImplemented. Errors:
/// Error(type) naming the place of what nobody knows; Error(value) for what is nested deeper than 1,000.
ckpt::Value to_value(nanobind::handle object, const nanobind::object& leaf);

void bind_values(nanobind::module_& module);

}  // namespace python
