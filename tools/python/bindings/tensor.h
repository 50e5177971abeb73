#pragma once
// ckpt.Tensor: one tensor of a checkpoint, whose values are read when they are asked for.
// Thread safety: the interpreter's lock. Use: bind_tensor(module);

#include <nanobind/nanobind.h>

#include <string>

#include "libckpt/entry.h"

namespace python {

struct Tensor {
  std::string name;  ///< dotted, "" for one that is in no checkpoint
  ckpt::EntryPtr entry;
};

/// Also _Storage and _tensor, of which the package makes tensors over the memory of NumPy and PyTorch.
void bind_tensor(nanobind::module_& module);

}  // namespace python
