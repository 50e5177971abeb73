#define CKPT_XXH3 kXxh3Plain
#include "libckpt/io/xxh3_functions.inc"
