// Folders that transformers wrote, config.json and weights of one file or several: zoo::from_folder() builds their
// models, whose outputs are those that transformers computed.

#include <filesystem>

#include "libckpt/bridge.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"
#include "zoo/from_folder.h"

namespace {

namespace fs = std::filesystem;
using core::Tensor;

/// Beside the folder lie "x", an input, and "y", the output for it, in f32.
std::string fault_of(const fs::path& folder) {
  const zoo::FolderModel made = zoo::from_folder(folder);
  core::StateDict one = ckpt::load(fs::path(folder.string() + ".case.safetensors"));
  core::NoGradGuard no_grad;
  const Tensor y = made.model->call(one.at("x")), wanted = one.at("y");
  if (y.sizes() != wanted.sizes()) return "the output has another shape";
  const double gap = core::abs(y - wanted).max().item<double>(), largest = core::abs(wanted).max().item<double>();
  return gap <= 2e-5 * largest ? "" : "the output is off by " + std::to_string(gap) + " of " + std::to_string(largest);
}

}  // namespace

int main() {
  test::GoldenRun run("zoo_folders");
  auto root = test::golden_file("zoo/folders");
  if (!root) return 77;
  for (const auto& entry : fs::directory_iterator(*root)) {
    if (!entry.is_directory()) continue;
    const std::string name = entry.path().filename().string();
    test::guarded(run, name, [&] {
      const std::string fault = fault_of(entry.path());
      run.check(name, fault.empty(), fault);
    });
  }
  return run.finish() == 0 ? 0 : 1;
}
