#pragma once
// What parts of core ask of a training in several processes, while there is one: which share of the data is this
// process's (DistributedSampler), and sums over all ranks (SyncBatchNorm). Internal to dist.
// Thread safety: as init_process_group.

namespace core::distributed {

void install_hooks();
void remove_hooks();
// Of these, SyncBatchNorm's.
void install_norm();
void remove_norm();

}  // namespace core::distributed
