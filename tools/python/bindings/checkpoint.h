#pragma once
// ckpt.Checkpoint: a lazy mapping from names to tensors, with the transforms of the library as methods.
// Thread safety: the interpreter's lock. Use: bind_checkpoint(module);

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <unordered_map>

#include "libckpt/checkpoint.h"
#include "libckpt/options.h"
#include "tools/python/bindings/tensor.h"

namespace python {

class Checkpoint {
 public:
  explicit Checkpoint(ckpt::Checkpoint checkpoint) : checkpoint_(std::move(checkpoint)) {}

  const ckpt::Checkpoint& get() const { return checkpoint_; }
  std::size_t count() const;
  /// Null when no tensor has that name; of two with one name the first.
  ckpt::EntryPtr find(const std::string& name) const;

 private:
  ckpt::Checkpoint checkpoint_;
  mutable std::optional<std::size_t> count_;  // known when it is first asked for, and so is index_
  mutable std::unordered_map<std::string, const ckpt::Value*> index_;
};

/// The keyword arguments that opening takes. Error(usage) naming one that it does not.
ckpt::OpenOptions open_options(const nanobind::kwargs& arguments, ckpt::Report& report);

/// A checkpoint, or the file of that name, opened.
ckpt::Checkpoint checkpoint_of(const nanobind::object& what);

void bind_checkpoint(nanobind::module_& module);

}  // namespace python
