// A training in several processes against the installed tree: one step under DistributedDataParallel, a checkpoint that
// all of them write, read back. usage: ranks OUT.dcp, with what a launcher sets in the environment
#include <libckpt/dist.h>
#include <libcore/core.h>
#include <libcore/dist.h>

#include <iostream>

namespace dist = core::distributed;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return dist::run_main([&] {
    dist::init_process_group({.timeout = std::chrono::minutes(1)});
    core::manual_seed(dist::get_rank());
    core::Linear net(4, 2), other(4, 2);
    dist::DistributedDataParallel model(net);
    core::SGD optimizer(net.parameters(), {.lr = 0.1});
    core::mse_loss(model(core::randn({5, 4})), core::zeros({5, 2})).backward();
    optimizer.step();
    ckpt::dist::save(net.state_dict(), argv[1]);
    ckpt::dist::load_into(other, argv[1]);
    if (dist::get_rank() == 0) std::cout << dist::get_world_size() << " ranks\n";
    return other.weight.equal(net.weight) ? 0 : 1;
  });
}
