#pragma once
// What new tensors are within a scope: of another floating dtype, or shapes without memory ("meta"), as models are laid
// out. Thread safety: none; the defaults are those of the whole program, so not beside other threads that make tensors.
// Use: { const zoo::MadeAs scope(core::Device("meta")); auto net = zoo::make("llama_7b_shape"); }

#include "libcore/tensor/factory.h"

namespace zoo {

class MadeAs {
 public:
  explicit MadeAs(core::DType dtype) { core::set_default_dtype(dtype); }
  explicit MadeAs(core::Device device) { core::set_default_device(device); }
  ~MadeAs() {
    core::set_default_dtype(dtype_);
    core::set_default_device(device_);
  }
  MadeAs(const MadeAs&) = delete;
  MadeAs& operator=(const MadeAs&) = delete;

 private:
  core::DType dtype_ = core::default_dtype();
  core::Device device_ = core::default_device();
};

}  // namespace zoo
