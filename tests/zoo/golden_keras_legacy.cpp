// Golden data set: models of keras.applications in the .h5 files of Keras before 3, and the same weights under
// torchvision's names (make_keras_legacy.py). A case is a folder with the name of its rules: whole.h5, inside.h5,
// weights.h5 and torch.safetensors. Equal to the bit.
#include "libckpt/ckpt.h"
#include "tests/support/golden.h"
#include "tests/support/near_tensors.h"
#include "zoo/rules/rule_packs.h"

namespace {

namespace fs = std::filesystem;

double equal(core::DType) {
  return 0;
}

/// What the rules do not know, such as an optimizer and layers around the model, stays under names of the file.
ckpt::Checkpoint known_of(const ckpt::Checkpoint& made, const ckpt::Checkpoint& torch) {
  ckpt::Dict dict;
  for (const auto& [key, value] : made.root.as_dict().items) {
    if (torch.root.find(key.as_text()) != nullptr) dict.items.emplace_back(key, value);
  }
  ckpt::Checkpoint out;
  out.root = ckpt::Value::dict(std::move(dict));
  return out;
}

void check_case(test::GoldenRun& run, const fs::path& folder) {
  const std::string rules = folder.filename().string();
  const ckpt::RulePack* pack = zoo::find_rule_pack(rules);
  if (pack == nullptr) return run.fail(rules, "no rules have this name");
  const ckpt::Checkpoint torch = ckpt::open(folder / "torch.safetensors");
  for (const char* name : {"whole.h5", "inside.h5", "weights.h5"}) {
    const ckpt::Checkpoint keras = ckpt::open(folder / name);
    const std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(keras.root);
    std::vector<ckpt::NamedShape> keys;
    for (const ckpt::NamedEntry& named : entries) keys.push_back({named.name, named.entry->shape});
    const ckpt::Checkpoint made = ckpt::apply_rules(keras, ckpt::keras_family_rules(*pack, keras, keys));
    test::check_near(run, rules + "/" + name, known_of(made, torch), torch, equal);
  }
}

}  // namespace

int main() {
  return test::golden_entries("keras_legacy", "keras_legacy", "", check_case);
}
