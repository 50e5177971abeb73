// Golden data set: sharded state dicts of PyTorch's FSDP, saved by torch.distributed.checkpoint (make_fsdp.py).
#include "tests/libckpt/format/joined_folders.h"

int main() {
  return test::run_joined_folders("fsdp_dcp", "dcp");
}
