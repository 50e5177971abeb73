#pragma once
// The same small model in every form that has checksums, each with one flipped bit in 'module.b'.
// Use: for (const DamagedForm& form : damaged_forms()) { form.write(dir.path()); run_ckpt(dir.path(), {"ls",
// form.name}); }

#include <filesystem>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"

namespace test {

struct DamagedForm {
  const char* name;     ///< of the file or folder
  const char* subject;  ///< what an error names: the tensor, or the record where all tensors lie in one
  void (*write)(const std::filesystem::path& folder);
  bool decodes = true;  ///< false: there are no bytes that could be passed on
};

/// module.a of three floats, module.b and module.c of 2 x 4.
ckpt::Value undamaged_model();
const std::vector<DamagedForm>& damaged_forms();

}  // namespace test
