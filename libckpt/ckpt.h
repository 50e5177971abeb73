#pragma once
// The file side of the library in one include: open, look, compare, change, save. Needs no runtime and no GPU.
// Thread safety: see each header. Use: #include "libckpt/ckpt.h" and link ckpt::ckpt.

#include "libckpt/analyze/diff.h"
#include "libckpt/analyze/plain_values.h"
#include "libckpt/checkpoint.h"
#include "libckpt/entry.h"
#include "libckpt/limits.h"
#include "libckpt/open_save.h"
#include "libckpt/reindex.h"
#include "libckpt/report.h"
#include "libckpt/transform/cast.h"
#include "libckpt/transform/glob.h"
#include "libckpt/transform/map_location.h"
#include "libckpt/transform/prefix.h"
#include "libckpt/transform/rename.h"
#include "libckpt/transform/select.h"
#include "libckpt/value.h"
#include "libckpt/wrappers.h"
