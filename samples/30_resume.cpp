// Training that goes on where it stopped, bit for bit: model, optimizer, schedule, order of the data and dropout.
// Tutorial 004's "save/load to resume training". Every epoch is saved; --stop_after N ends the run as a kill would.
// Use: sample_resume; sample_resume --stop_after 2 --state half.ckpt; sample_resume --resume --state half.ckpt
#include <cstdio>
#include <optional>

#include "libckpt/bridge.h"
#include "libcore/core.h"
#include "samples/support/program.h"
#include "samples/support/scratch_folder.h"

namespace {

using core::Tensor;

ckpt::Value with_schedule(const core::LRScheduler& schedule) {
  ckpt::Dict extra;
  extra.items.emplace_back(ckpt::Value::text("schedule"), ckpt::to_value(schedule.state_dict()));
  return ckpt::Value::dict(extra);
}

void run(samples::Program& program) {
  core::manual_seed(static_cast<std::uint64_t>(program.integer("seed")));
  Tensor x = core::randn({96, 4});
  Tensor y = core::argmax(x.slice(1, 0, 3), 1);
  core::DataLoader loader(core::TensorDataset(x, y), {.batch_size = 16, .shuffle = true});
  core::DataParallel net(core::Sequential{core::Linear(4, 16), core::ReLU(), core::Dropout(0.2), core::Linear(16, 3)});
  core::Device device = core::try_gpu();
  net.to(device);
  core::Adam optimizer(net.parameters(), {.lr = 0.02});
  core::CosineAnnealingLR schedule(optimizer, {.T_max = program.integer("epochs")});

  ckpt::TrainingProgress progress;
  std::string state = program.text("state");
  std::optional<samples::ScratchFolder> scratch;
  if (state.empty() && program.flag("resume")) throw core::Error(core::ErrorCode::usage, "--resume needs --state FILE");
  if (state.empty()) {
    scratch.emplace();
    state = "resume.ckpt";
  }
  if (program.flag("resume")) {
    progress = ckpt::resume_training(state, net, optimizer);
    const ckpt::Value* saved = progress.extra.find("schedule");
    if (saved == nullptr) throw core::Error(core::ErrorCode::key, state + ": holds no schedule, so another program's");
    schedule.load_state_dict(ckpt::to_option_map(*saved));
  }
  while (progress.epoch < program.integer("epochs")) {
    double total = 0;
    for (auto& [inputs, labels] : loader) {
      Tensor loss = core::cross_entropy(net(inputs.to(device)), labels.to(device));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      total += loss.item<double>();
      ++progress.step;
    }
    schedule.step();
    ++progress.epoch;
    progress.extra = with_schedule(schedule);
    ckpt::save_training(state, net, optimizer, progress);
    std::printf("epoch %lld: loss %.17g, next rate %.17g\n", static_cast<long long>(progress.epoch), total,
                schedule.last_lr()[0]);
    if (progress.epoch == program.integer("stop_after")) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  return samples::run_program(argc, argv,
                              {.about = "Training that goes on where it stopped",
                               .options = {{"epochs", 5, "of the whole run", 1},
                                           {"stop_after", 0, "stop behind this epoch"},
                                           {"state", "", "the file with the state (default: a temporary one)"},
                                           {"resume", false, "go on from it"},
                                           {"seed", 0, "of all random numbers"}}},
                              run);
}
