// One model trained by several processes, on one machine or on several: DistributedDataParallel, set up and used as the
// tutorials leave it open. The processes are started by torchrun, mpirun or srun, or by hand:
//   torchrun --nproc-per-node 2 --no-python sample_distributed
//   mpirun -n 2 sample_distributed
//   srun -n 2 sample_distributed
// Two machines: this line on both, where N is 0 on the machine FIRST and 1 on the other:
//   torchrun --nnodes 2 --node-rank N --master-addr FIRST --master-port 29500 --no-python sample_distributed
// Use: RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 sample_distributed
#include <iostream>

#include "libcore/core.h"
#include "libcore/dist.h"

namespace dist = core::distributed;

int main(int argc, char** argv) {
  return dist::run_main([&] {
    // 1. The processes find each other; rank and size come from the launcher.
    dist::init_process_group({.init_method = argc > 1 ? argv[1] : "env://", .timeout = std::chrono::minutes(1)});
    const int rank = dist::get_rank();

    // 2. Every process makes the same data and its own model; the wrapper gives all of them rank 0's weights.
    core::manual_seed(0);
    const core::Tensor x = core::randn({240, 4});
    const core::Tensor y = core::argmax(x.slice(1, 0, 3), 1);
    core::Sequential net{core::Linear(4, 16), core::ReLU(), core::Linear(16, 3)};
    dist::DistributedDataParallel model(net);
    core::SGD optimizer(net.parameters(), {.lr = 0.5});

    // 3. The sampler gives every process its share of the rows; batch_size is that of one process.
    auto sampler = std::make_shared<core::DistributedSampler>(240);
    core::DataLoader loader(core::TensorDataset(x, y),
                            {.batch_size = std::max(1, 48 / dist::get_world_size()), .sampler = sampler});
    for (int epoch = 0; epoch < 20; ++epoch) {
      sampler->set_epoch(epoch);  // else every epoch has the same order
      for (auto& [inputs, labels] : loader) {
        const core::Tensor loss = core::cross_entropy(model(inputs), labels);
        optimizer.zero_grad();
        loss.backward();  // gradients are averaged over the processes meanwhile
        optimizer.step();
      }
    }

    // 4. Sums over the processes, here of what each got right; only one of them speaks.
    const core::NoGradGuard no_grad;
    const std::int64_t begin = 240 * rank / dist::get_world_size();
    const std::int64_t end = 240 * (rank + 1) / dist::get_world_size();
    const core::Tensor right = core::sum(core::argmax(net(x.slice(0, begin, end)), 1).eq(y.slice(0, begin, end)));
    dist::all_reduce(right);
    if (rank == 0) {
      std::cout << dist::get_world_size() << " processes on " << dist::get_backend() << ", the model says "
                << model.state_dict().begin()->first << "\n";
      std::cout << (right.item<std::int64_t>() >= 220 ? "more than 9 of 10 rows right" : "too few rows right") << '\n';
    }
    return 0;
  });
}
