// Golden data set: folders of ZeRO 1 to 3 (make_deepspeed.py), and the weights that DeepSpeed's own script makes of
// them.
#include "tests/libckpt/format/joined_folders.h"

int main() {
  return test::run_joined_folders("deepspeed", "deepspeed-zero");
}
