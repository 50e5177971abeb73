#pragma once
// What the `Use:` lines of libckpt/dist take as given: a training, and which of several ranks this is.

#include <functional>
#include <string>

#include "libckpt/dist.h"
#include "libcore/core.h"
#include "libcore/dist.h"

namespace ckpt::dist::user {

extern core::Linear model;
extern core::SGD optimizer;
extern const core::distributed::Group group;
extern const Pieces pieces;
extern const core::StateDict state;
extern const int rank, ranks;
extern const std::string mine;
extern const std::function<void()> train;

}  // namespace ckpt::dist::user
