// Golden data set: adapters merged by PEFT (make_lora.py). Every folder is a case: base.safetensors, adapter/ and
// merged.safetensors. Sums over the rank run in another order there, so f32 and f64 may differ by a few roundings of
// the largest value; 16-bit weights are equal. Exits with 77 without the data.

#include "libckpt/ckpt.h"
#include "tests/support/golden.h"
#include "tests/support/near_tensors.h"

namespace {

double tolerance_of(core::DType dtype) {
  if (dtype == core::DType::f64) return 1e-15;
  return dtype == core::DType::f32 ? 5e-7 : 0;
}

void check_case(test::GoldenRun& run, const std::filesystem::path& folder) {
  const ckpt::Checkpoint merged =
      ckpt::merge_lora(ckpt::open(folder / "base.safetensors"), ckpt::open_lora(folder / "adapter"));
  test::check_near(run, folder.filename().string(), merged, ckpt::open(folder / "merged.safetensors"), tolerance_of);
}

}  // namespace

int main() {
  return test::golden_entries("lora", "lora", "", check_case);
}
