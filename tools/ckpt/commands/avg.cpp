// ckpt avg: one model from several checkpoints of it.

#include "libckpt/transform/average.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/combine.h"
#include "tools/ckpt/line/numbers.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : EditOptions {
  std::string weights;
  double ema = 0;
};

std::vector<std::string> warnings_of(const ckpt::AverageReport& done) {
  std::vector<std::string> warnings;
  if (!done.norm_buffers.empty()) {
    warnings.push_back(
        count_of(done.norm_buffers.size(), "batch-norm statistic") + " averaged too (" +
        core::quote(done.norm_buffers.front()) +
        ", ...); they do not belong to the averaged weights: run some training batches through the model "
        "to recompute them (torch.optim.swa_utils.update_bn)");
  }
  if (!done.taken_last.empty()) {
    warnings.push_back(
        differing_text(done.taken_last, count_of(done.taken_last.size(), "integer tensor"), "the last file's"));
  }
  return warnings;
}

Combination describe(ckpt::Checkpoint checkpoint, const ckpt::AverageReport& done) {
  Combination made;
  made.checkpoint = std::move(checkpoint);
  made.summary = count_of(done.averaged, "tensor") + " averaged over " + count_of(done.checkpoints, "file");
  made.warnings = warnings_of(done);
  made.json = [done](ckpt::JsonWriter& json) {
    json.key("averaged").value(done.averaged);
    json.key("equal").value(done.equal);
    json.key("taken_last").begin_array();
    for (const std::string& name : done.taken_last) json.value(name);
    json.end_array();
    json.key("norm_buffers").value(static_cast<std::uint64_t>(done.norm_buffers.size()));
  };
  return made;
}

int run(Context& context, const Options& options) {
  ckpt::AverageOptions average{.weights = parse_numbers("--weights", options.weights), .ema_decay = options.ema};
  return run_combination(context, options, "avg",
                         [&](const std::vector<ckpt::Checkpoint>& checkpoints, std::vector<std::string> at) {
                           average.at = std::move(at);
                           ckpt::AverageReport done;
                           ckpt::Checkpoint result = ckpt::average(checkpoints, average, &done);
                           return describe(std::move(result), done);
                         });
}

}  // namespace

void add_avg(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "avg",
                  "ckpt avg epoch8.pth epoch9.pth epoch10.pth -o soup.pth\n  ckpt avg --weights 0.7,0.3 a.safetensors "
                  "b.safetensors -o mix.safetensors",
                  "Average the weights of checkpoints of one model, in double precision, rounded once. "
                  "The result is a plain state dict.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "two checkpoints or more; FILE::path names the state dict")
      .required()
      .type_name("");
  command.add_option("-o,--output", options->output, "output, or - for standard output").required().type_name("OUT");
  OptionSpec weights =
      command
          .add_option("--weights", options->weights, "one weight per file, such as 0.5,0.3,0.2; divided by their sum")
          .type_name("W,...");
  command.add_option("--ema", options->ema, "moving average in the order given: a = DECAY * a + (1 - DECAY) * x")
      .type_name("DECAY")
      .excludes(weights);
  add_write_options(command, *options);
  command.remove_options({"--in-place", "--follow"});
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
