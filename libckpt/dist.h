#pragma once
// Checkpoints that the processes of a training write and read together, in one include.
// Thread safety: see each header. Link ckpt::dist_bridge.
// Use: ckpt::dist::save(model.state_dict(), "run/step-100");

#include "libckpt/dist/load.h"
#include "libckpt/dist/pieces.h"
#include "libckpt/dist/save.h"
#include "libckpt/dist/save_async.h"
