#pragma once
// Memory whose bytes another stream is still copying: who asks for them first waits, in the order of streams, and the
// host never does. So replicas start to compute while the parameters of their later layers are on their way.
// Thread safety: all functions. Use: Storage there = lazy_copy(bytes, copies.record_event(), current_stream(device));

#include "libcore/backend/streams.h"
#include "libcore/tensor/storage.h"

namespace core::detail {

/// A storage with the bytes of `bytes`, which are there after `copied`. The first use of data() makes the stream that
/// is current there, and `home`, for which the memory was allocated, come after the event. Unused, it is freed in the
/// same order.
Storage lazy_copy(Storage bytes, cuda::Event copied, cuda::Stream home);

}  // namespace core::detail
