// Golden data set: every legacy stream and old tar of the golden checkpoints. Exits with 77 when the data is absent.

#include "tests/libckpt/format/torch_golden.h"

int main() {
  return test::run_torch_golden("checkpoints_torch_legacy", {"torch-legacy", "torch-tar"});
}
