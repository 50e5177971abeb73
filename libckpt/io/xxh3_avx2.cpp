// Compiled with -mavx2.
#define CKPT_XXH3 kXxh3Avx2
#include "libckpt/io/xxh3_functions.inc"
