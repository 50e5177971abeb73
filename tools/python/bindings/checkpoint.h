#pragma once
// ckpt.Checkpoint: a lazy mapping from names to tensors, with the transforms of the library as methods.
// Thread safety: the interpreter's lock. Use: bind_checkpoint(module);

#include <nanobind/nanobind.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/options.h"
#include "tools/python/bindings/tensor.h"

namespace python {

class Checkpoint {
 public:
  explicit Checkpoint(ckpt::Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  const ckpt::Checkpoint& get() const { return checkpoint_; }
  const std::vector<ckpt::NamedEntry>& entries() const;
  /// Null when no tensor has that name; of two with one name the first.
  const ckpt::NamedEntry* find(const std::string& name) const;

 private:
  ckpt::Checkpoint checkpoint_;
  mutable bool listed_ = false;  // entries_ is filled when it is first asked for, and so is index_
  mutable std::vector<ckpt::NamedEntry> entries_;
  mutable std::unordered_map<std::string_view, const ckpt::NamedEntry*> index_;
};

/// The keyword arguments that opening takes. Error(usage) naming one that it does not.
ckpt::OpenOptions open_options(const nanobind::kwargs& arguments, ckpt::Report& report);

/// A checkpoint, or the file of that name, opened.
ckpt::Checkpoint checkpoint_of(const nanobind::object& what);

void bind_checkpoint(nanobind::module_& module);

}  // namespace python
