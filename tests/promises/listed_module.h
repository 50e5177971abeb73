#pragma once
// A module made from the list of a PyTorch model's modules, so that libcore's load_state_dict can judge files for
// models that libcore does not have. Layers with load rules of their own (batch norms) are libcore's. Thread safety:
// none. Use: auto model = test::make_listed_module(record); model->load_state_dict(state);

#include <memory>

#include "libcore/module/module.h"
#include "tests/support/golden_json.h"

namespace test {

/// `model`: {"name": class, "modules": [{"path", "class", "version", "parameters", "buffers"}]}, tensors as [name,
/// shape, dtype], an outer module before those inside. All values are zero. Throws std::runtime_error for another form.
std::shared_ptr<core::Module> make_listed_module(Json model);

}  // namespace test
