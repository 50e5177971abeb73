#pragma once
// The file side of the library in one include: open, look, change, save. Needs no runtime and no GPU.
// Thread safety: see each header. Use: #include "libckpt/ckpt.h" and link ckpt::ckpt.

#include "libckpt/checkpoint.h"
#include "libckpt/entry.h"
#include "libckpt/limits.h"
#include "libckpt/open_save.h"
#include "libckpt/report.h"
#include "libckpt/value.h"
