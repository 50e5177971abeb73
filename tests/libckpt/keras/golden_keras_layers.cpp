// Golden data set: models of Keras' own layers, as Keras saved them in each of its forms, and the state dict with which
// torch's layers compute the same (make_keras_layers.py). A case is a folder with in.keras, in.h5 or in.weights.h5, and
// torch.safetensors, whose metadata says whether the way back leads to the file again. Equal to the bit.
#include <algorithm>
#include <stdexcept>

#include "libckpt/ckpt.h"
#include "tests/support/golden.h"
#include "tests/support/near_tensors.h"

namespace {

namespace fs = std::filesystem;

double equal(core::DType) {
  return 0;
}

ckpt::Checkpoint saved_by_keras(const fs::path& folder) {
  for (const char* name : {"in.keras", "in.weights.h5", "in.h5"}) {
    if (fs::exists(folder / name)) return ckpt::open(folder / name);
  }
  throw std::runtime_error(folder.string() + " has no file of Keras");
}

/// What an optimizer has does not come back.
ckpt::Checkpoint weights_of(const ckpt::Checkpoint& keras) {
  ckpt::Dict dict = keras.root.as_dict();
  std::erase_if(dict.items, [](const auto& item) { return item.first.as_text().starts_with("optimizer"); });
  ckpt::Checkpoint out;
  out.root = ckpt::Value::dict(std::move(dict));
  return out;
}

void check_case(test::GoldenRun& run, const fs::path& folder) {
  const std::string name = folder.filename().string();
  const ckpt::Checkpoint keras = saved_by_keras(folder);
  const ckpt::Checkpoint torch = ckpt::open(folder / "torch.safetensors");
  const ckpt::KerasRules way = ckpt::keras_rules(keras);
  test::check_near(run, name, ckpt::from_keras(keras, way), torch, equal);
  const bool back = std::find(torch.metadata.begin(), torch.metadata.end(),
                              std::pair<std::string, std::string>("back", "yes")) != torch.metadata.end();
  run.check(name + " numbered", way.numbered == back, "whether the way back is there");
  if (back) test::check_near(run, name + " back", weights_of(ckpt::to_keras(torch, keras)), weights_of(keras), equal);
}

}  // namespace

int main() {
  return test::golden_entries("keras_layers", "keras_layers", "", check_case);
}
