// Golden data set: every PyTorch zip file of the golden checkpoints. Exits with 77 when the data is absent.

#include "tests/libckpt/format/torch_golden.h"

int main() {
  return test::run_torch_golden("checkpoints_torch_zip", {"torch-zip"});
}
