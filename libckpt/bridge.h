#pragma once
// The runtime side of the library in one include: save a module's state, load it, resume a training run.
// Thread safety: see each header. Use: model.load_state_dict(ckpt::load("net.pth"));  // links ckpt::bridge

#include "libckpt/bridge/map_location.h"
#include "libckpt/bridge/module_state.h"
#include "libckpt/bridge/save_async.h"
#include "libckpt/bridge/training_state.h"
#include "libckpt/ckpt.h"
