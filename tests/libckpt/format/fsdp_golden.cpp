// Golden data set: files that the ranks of PyTorch's FSDP wrote (make_fsdp.py), and the whole tensors.
#include "tests/libckpt/format/joined_folders.h"

int main() {
  return test::run_joined_folders("fsdp", "fsdp");
}
