// Golden data set: models cut over tensor-parallel ranks and pipeline stages as Megatron-LM cuts them
// (make_megatron.py), and before they were cut.
#include "tests/libckpt/format/joined_folders.h"

int main() {
  return test::run_joined_folders("megatron", "megatron");
}
