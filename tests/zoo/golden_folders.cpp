// Folders that transformers wrote, config.json and weights of one file or several: zoo::from_folder() builds their
// models, whose outputs are those that transformers computed.

#include <filesystem>

#include "libckpt/bridge.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"
#include "zoo/decoder.h"
#include "zoo/from_folder.h"
#include "zoo/log_mel.h"

namespace {

namespace fs = std::filesystem;
using core::Tensor;

/// Beside the folder lie "x", an input, "sound" where a preprocessor makes it of samples, "second" where the model
/// takes two, and "y", the output for it, in f32.
std::string fault_of(const fs::path& folder) {
  const zoo::FolderModel made = zoo::from_folder(folder);
  core::StateDict one = ckpt::load(fs::path(folder.string() + ".case.safetensors"));
  core::NoGradGuard no_grad;
  if (one.contains("sound")) {
    const Tensor heard = zoo::log_mel(one.at("sound"), zoo::read_log_mel(folder / "preprocessor_config.json"));
    if (!core::allclose(heard, one.at("x"), {.rtol = 0, .atol = 1e-4})) return "the sound is heard otherwise";
  }
  auto* pair = dynamic_cast<zoo::TwoInputs*>(made.model.get());
  const Tensor y = pair != nullptr ? pair->with_second(one.at("x"), one.at("second")) : made.model->call(one.at("x"));
  const Tensor wanted = one.at("y");
  if (y.sizes() != wanted.sizes()) return "the output has another shape";
  const double gap = core::abs(y - wanted).max().item<double>(), largest = core::abs(wanted).max().item<double>();
  return gap <= 2e-5 * largest ? "" : "the output is off by " + std::to_string(gap) + " of " + std::to_string(largest);
}

}  // namespace

int main() {
  return test::golden_entries("zoo_folders", "zoo/folders", "", [](test::GoldenRun& run, const fs::path& folder) {
    if (!fs::is_directory(folder)) return;
    const std::string fault = fault_of(folder);
    run.check(folder.filename().string(), fault.empty(), fault);
  });
}
