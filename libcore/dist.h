#pragma once
// Everything for training in several processes, in one include (link ckpt::dist). Thread safety: see each header.
// Use: core::distributed::init_process_group(); core::distributed::DistributedDataParallel model(net);

#include "libcore/dist/collectives.h"
#include "libcore/dist/comm_hooks.h"
#include "libcore/dist/distributed_data_parallel.h"
#include "libcore/dist/init.h"
#include "libcore/dist/launch.h"
#include "libcore/dist/power_sgd.h"
#include "libcore/dist/store.h"
#include "libcore/dist/tcp_store.h"
#include "libcore/dist/zero_redundancy_optimizer.h"
