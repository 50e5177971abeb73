// Folders that became GGUF files of llama.cpp and folders again (tests/libckpt/hub/make_gguf_models.py has the files):
// zoo::from_folder() builds the model of what came back, and it computes, bit for bit, what the first folder's does.

#include <filesystem>

#include "libckpt/bridge.h"
#include "libckpt/ckpt.h"
#include "libcore/autograd/grad_mode.h"
#include "libcore/ops/compare.h"
#include "libcore/tensor/factory.h"
#include "libcore/tensor/tensor.h"
#include "tests/support/golden.h"
#include "tests/support/golden_json.h"
#include "tests/support/temp_dir.h"
#include "zoo/decoder.h"
#include "zoo/from_folder.h"

namespace {

namespace fs = std::filesystem;
using core::Tensor;

Tensor output_of(const fs::path& folder) {
  const zoo::FolderModel made = zoo::from_folder(folder);
  core::NoGradGuard no_grad;
  const Tensor text = core::arange(3, 23).reshape({1, 20});
  auto* pair = dynamic_cast<zoo::TwoInputs*>(made.model.get());
  return pair != nullptr ? pair->with_second(text, core::arange(0, 6).reshape({1, 6})) : made.model->call(text);
}

std::string fault_of(const fs::path& file, const fs::path& folder, const fs::path& back) {
  ckpt::save_hub_model(ckpt::from_gguf_model(ckpt::open(file)), back);
  const Tensor wanted = output_of(folder), y = output_of(back);
  if (y.sizes() != wanted.sizes()) return "the output has another shape";
  return core::equal(y, wanted) ? "" : "the outputs differ";
}

}  // namespace

int main() {
  auto root = test::golden_file("gguf_models");
  if (!root) return 77;
  test::GoldenRun run("zoo_gguf_folders");
  const test::TempDir dir;
  for (const auto& entry : fs::directory_iterator(*root)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".gguf" || name.ends_with("q8_0")) continue;
    if (name.starts_with("bert") || name.starts_with("roberta.")) {
      run.skip(name, "llama.cpp has no place for the pooler that the model here needs");
      continue;
    }
    if (name.starts_with("gemma2_half")) {
      run.skip(name, "llama.cpp's converter adds one to norms of f16 in f16, which rounds them");
      continue;
    }
    if (name.starts_with("distilbert_masked")) {
      run.skip(name, "llama.cpp has no place for the head");
      continue;
    }
    test::guarded(run, name, [&] {
      const fs::path folder = *root / name.substr(0, name.find('.'));
      const std::string fault = fault_of(entry.path(), folder, dir.path() / name);
      run.check(name, fault.empty(), fault);
    });
  }
  return run.finish();
}
