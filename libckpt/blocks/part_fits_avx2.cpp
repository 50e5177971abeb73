// Compiled with -mavx2.
#define CKPT_PART_FITS kPartFitsAvx2
#include "libckpt/blocks/part_fits.inc"
