// Golden data set: weights that Keras saved, and the same under torchvision's names (make_keras.py). A case is a folder
// with the name of its rules: in.weights.h5 and torch.safetensors. Equal to the bit, there and back.
#include "libckpt/ckpt.h"
#include "tests/support/golden.h"
#include "tests/support/near_tensors.h"
#include "zoo/rules/rule_packs.h"

namespace {

namespace fs = std::filesystem;

double equal(core::DType) {
  return 0;
}

void check_case(test::GoldenRun& run, const fs::path& folder) {
  const std::string name = folder.filename().string();
  const ckpt::RulePack* pack = zoo::find_rule_pack(name);
  if (pack == nullptr) return run.fail(name, "no rules have this name");
  const ckpt::Checkpoint keras = ckpt::open(folder / "in.weights.h5");
  const ckpt::Checkpoint torch = ckpt::open(folder / "torch.safetensors");
  test::check_near(run, name, ckpt::apply_rules(keras, pack->rules), torch, equal);
  test::check_near(run, name + " back", ckpt::apply_rules(torch, ckpt::turned_round(*pack).rules), keras, equal);
}

}  // namespace

int main() {
  return test::golden_entries("keras", "keras", "", check_case);
}
