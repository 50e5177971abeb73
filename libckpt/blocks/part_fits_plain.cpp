#define CKPT_PART_FITS kPartFitsPlain
#include "libckpt/blocks/part_fits.inc"
