#pragma once
// Steps over several devices: forward and backward of a perceptron of 10 million parameters, as one replica and as two
// of DataParallel on logical devices, each with the threads that the program was given. Use: see bench_steps.h.

#include "tests/bench/bench_steps.h"

namespace bench {

Step dp_one_replica(core::Device device);
Step dp_two_replicas(core::Device device);
/// The same with a batch of 2048 in place of 64.
Step dp_one_replica_2048(core::Device device);
Step dp_two_replicas_2048(core::Device device);

}  // namespace bench
