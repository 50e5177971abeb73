#pragma once
// Memory whose bytes another stream is still copying: who asks for them first waits, in the order of streams, and the
// host never does. So replicas start to compute while the parameters of their later layers are on their way.
// Thread safety: all functions. Use: Storage there = arriving(bytes, copies.record_event(), current_stream(device));

#include "libcore/backend/streams.h"
#include "libcore/tensor/storage.h"

namespace core::detail {

/// A storage with the bytes of `bytes`, which are there after `event`. The first use of data() makes the stream that is
/// current there, and `home`, for which the memory was allocated, come after the event. Unused, it is freed in the same
/// order.
Storage arriving(Storage bytes, cuda::Event event, cuda::Stream home);

// For StorageImpl, of storages that were lent by arriving().

void release_arriving(void* context);
void* settle_arriving(void* context);

}  // namespace core::detail
