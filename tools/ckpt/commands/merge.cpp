// ckpt merge: one model from several that were trained on from a common base.

#include "libckpt/transform/merge.h"

#include <charconv>

#include "libckpt/transform/stack_layers.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/combine.h"
#include "tools/ckpt/line/numbers.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

struct Options : EditOptions {
  std::string method = "linear";
  std::string base;
  std::string weights;
  std::string densities;
  std::string layers;
  double t = 0.5;
  double lambda = 1;
  std::uint64_t seed = 0;
  bool normalize = false;
  bool keep_sum = false;
};

ckpt::MergeMethod method_of(const Options& options) {
  const std::optional<ckpt::MergeMethod> method = ckpt::parse_merge_method(options.method);
  if (!method) {
    throw core::Error(core::ErrorCode::usage, "--method " + core::quote(options.method) +
                                                  " is none of linear, slerp, task-arithmetic, ties, dare-linear, "
                                                  "dare-ties, passthrough");
  }
  if (ckpt::has_base(*method) == options.base.empty()) {
    throw core::Error(core::ErrorCode::usage, options.base.empty()
                                                  ? "--method " + options.method + " needs the common base: --base FILE"
                                                  : "--method " + options.method + " takes no --base");
  }
  return *method;
}

Combination describe(ckpt::Checkpoint checkpoint, const ckpt::MergeReport& done, const Options& options) {
  Combination made;
  made.checkpoint = std::move(checkpoint);
  made.summary = count_of(done.merged, "tensor") + " merged over " + count_of(options.files.size(), "file") + " by " +
                 options.method;
  if (!done.taken_first.empty()) {
    made.warnings.push_back(differing_text(done.taken_first, count_of(done.taken_first.size(), "integer tensor"),
                                           "those of " + core::quote(options.files.front())));
  }
  made.json = [done, method = options.method](ckpt::JsonWriter& json) {
    json.key("method").value(method);
    json.key("merged").value(done.merged);
    json.key("equal").value(done.equal);
    json.key("taken_first").begin_array();
    for (const std::string& name : done.taken_first) json.value(name);
    json.end_array();
  };
  return made;
}

/// "0-16" is the layers 0 to 15.
std::pair<std::uint64_t, std::uint64_t> parse_run(std::string_view text) {
  std::pair<std::uint64_t, std::uint64_t> run;
  const std::size_t dash = std::min(text.find('-'), text.size());
  auto number = [](std::string_view part, std::uint64_t& out) {
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), out);
    return error == std::errc() && end == part.data() + part.size();
  };
  if (dash == text.size() || !number(text.substr(0, dash), run.first) || !number(text.substr(dash + 1), run.second)) {
    throw core::Error(core::ErrorCode::usage,
                      "--layers " + core::quote(text) + " is no run of layers such as 0-16 (16 is not in it)");
  }
  return run;
}

Combination describe(ckpt::Checkpoint checkpoint, const ckpt::StackLayersReport& done, const Options& options) {
  Combination made;
  made.checkpoint = std::move(checkpoint);
  made.summary = count_of(done.layers, "layer") + " " + core::quote(done.numbered) + " from " +
                 count_of(options.files.size(), "run");
  made.warnings.push_back("the configuration of the model has to say " + std::to_string(done.layers) +
                          " layers (num_hidden_layers, n_layer)");
  if (!done.differing.empty()) {
    made.warnings.push_back(differing_text(done.differing,
                                           count_of(done.differing.size(), "tensor") + " outside of the layers",
                                           "those of " + core::quote(options.files.front())));
  }
  made.json = [done](ckpt::JsonWriter& json) {
    json.key("method").value("passthrough").key("layers").value(done.layers).key("numbered").value(done.numbered);
    json.key("differing").begin_array();
    for (const std::string& name : done.differing) json.value(name);
    json.end_array();
  };
  return made;
}

int stack(Context& context, const Options& options) {
  if (!options.base.empty() || options.layers.empty()) {
    throw core::Error(core::ErrorCode::usage,
                      "--method passthrough takes --layers RUN,... with one run per file, and "
                      "no --base");
  }
  ckpt::StackLayersOptions runs;
  for (std::string_view run : core::split(options.layers, ',')) runs.layers.push_back(parse_run(run));
  return run_combination(context, options, "merge",
                         [&](const std::vector<ckpt::Checkpoint>& checkpoints, std::vector<std::string> at) {
                           runs.at = std::move(at);
                           ckpt::StackLayersReport done;
                           ckpt::Checkpoint result = ckpt::stack_layers(checkpoints, runs, &done);
                           return describe(std::move(result), done, options);
                         });
}

int run(Context& context, const Options& given) {
  if (given.method == "passthrough") return stack(context, given);
  if (!given.layers.empty()) {
    throw core::Error(core::ErrorCode::usage, "--layers belongs to --method passthrough");
  }
  Options options = given;
  ckpt::MergeOptions merge{.method = method_of(options),
                           .weights = parse_numbers("--weights", options.weights),
                           .densities = parse_numbers("--densities", options.densities),
                           .t = options.t,
                           .lambda = options.lambda,
                           .normalize = {},
                           .rescale = {},
                           .seed = options.seed};
  if (options.normalize) merge.normalize = true;
  if (options.keep_sum) merge.normalize = false;
  if (!options.base.empty()) options.files.insert(options.files.begin(), options.base);
  return run_combination(context, options, "merge",
                         [&](const std::vector<ckpt::Checkpoint>& checkpoints, std::vector<std::string> at) {
                           merge.at = std::move(at);
                           ckpt::MergeReport done;
                           ckpt::Checkpoint result = ckpt::merge(checkpoints, merge, &done);
                           return describe(std::move(result), done, options);
                         });
}

void add_method_options(CommandSpec command, Options& options) {
  command
      .add_option(
          "--method", options.method,
          "linear (weighted mean), slerp (along the arc from the first to the second), task-arithmetic, ties, "
          "dare-linear, dare-ties (differences to a base), passthrough (runs of layers as they are); default linear")
      .type_name("METHOD");
  command.add_option("--base", options.base, "the model that the others were trained on from").type_name("FILE");
  command.add_option("--weights", options.weights, "one weight per model, or one for all (default 1)")
      .type_name("W,...");
  command
      .add_option("--densities", options.densities,
                  "share of each difference that ties and dare keep, one per model or one for all (default 1)")
      .type_name("D,...");
  command
      .add_option("--layers", options.layers,
                  "of passthrough: a run of layers per file, 0-16,8-24 for 0 to 15 of the first, then 8 to 23 of the "
                  "second; a file may be given several times")
      .type_name("RUN,...");
  command.add_option("-t", options.t, "of slerp: 0 is the first model, 1 the second (default 0.5)").type_name("T");
  command.add_option("--lambda", options.lambda, "factor of the merged difference (default 1)").type_name("X");
  command.add_option("--seed", options.seed, "of dare's choices (default 0)").type_name("N");
  OptionSpec normalize =
      command.add_flag("--normalize", options.normalize, "divide by the sum of weights (linear and ties do so)");
  command.add_flag("--no-normalize", options.keep_sum, "do not").excludes(normalize);
}

}  // namespace

void add_merge(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "merge",
      "ckpt merge --method slerp -t 0.3 a.safetensors b.safetensors -o mix.safetensors\n"
      "  ckpt merge --method ties --base base.pth --densities 0.5 a.pth b.pth -o c.pth",
      "Merge models of one architecture by the methods of mergekit, computed in float32 (float64 for such tensors) and "
      "rounded once. Memory does not grow with the files. The result is a plain state dict. The parts of one model are "
      "put together by ckpt join.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "the models; FILE::path names the state dict").required().type_name("");
  command.add_option("-o,--output", options->output, "output, or - for standard output").required().type_name("OUT");
  add_method_options(command, *options);
  add_write_options(command, *options);
  command.remove_options({"--in-place", "--follow"});
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
