// ckpt avg: one model from several checkpoints of it.

#include <algorithm>
#include <charconv>

#include "libckpt/format/format.h"
#include "libckpt/objects.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/average.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/carried_objects.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/edit/standard_output.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : EditOptions {
  std::string weights;
  double ema = 0;
};

std::vector<double> parse_weights(const std::string& text) {
  std::vector<double> weights;
  if (text.empty()) return weights;
  for (std::string_view part : core::split(text, ',')) {
    double weight = 0;
    auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), weight);
    if (error != std::errc() || end != part.data() + part.size()) {
      throw Error(ErrorCode::usage, "--weights " + core::quote(text) + " is not a list such as 0.5,0.3,0.2");
    }
    weights.push_back(weight);
  }
  return weights;
}

void warn(const ckpt::AverageReport& done, ckpt::Report& report) {
  if (!done.norm_buffers.empty()) {
    report.warnings.push_back(
        count_of(done.norm_buffers.size(), "batch-norm statistic") + " averaged too (" +
        core::quote(done.norm_buffers.front()) +
        ", ...); they do not belong to the averaged weights: run some training batches through the model "
        "to recompute them (torch.optim.swa_utils.update_bn)");
  }
  if (!done.taken_last.empty()) {
    report.warnings.push_back(count_of(done.taken_last.size(), "integer tensor") +
                              (done.taken_last.size() == 1 ? " differs" : " differ") + " between the files (" +
                              core::quote(done.taken_last.front()) + (done.taken_last.size() > 1 ? ", ..." : "") +
                              "); the last file's are taken");
  }
}

void write_json(ckpt::JsonWriter& json, const Options& options, const ckpt::AverageReport& done,
                const ckpt::Report& report) {
  json.begin_object();
  json.key("command").value("avg");
  json.key("inputs").begin_array();
  for (const std::string& file : options.files) json.value(file);
  json.end_array();
  json.key("output").value(options.output);
  json.key("dry_run").value(options.dry_run);
  json.key("bytes_written").value(report.bytes_written);
  json.key("averaged").value(done.averaged);
  json.key("equal").value(done.equal);
  json.key("taken_last").begin_array();
  for (const std::string& name : done.taken_last) json.value(name);
  json.end_array();
  json.key("norm_buffers").value(static_cast<std::uint64_t>(done.norm_buffers.size()));
  write_report(json, report);
  json.end_object();
}

const ckpt::Format* format_written(const Options& options, const ckpt::Checkpoint& average) {
  const ckpt::Format* by_name = ckpt::find_format_for(options.output);
  return by_name != nullptr ? by_name : ckpt::find_format(average.format);
}

/// What reading said, as far as it is about the average, each once.
ckpt::Report report_of(const Options& options, ckpt::Checkpoint& average, std::vector<ckpt::Report> read) {
  ckpt::Report report;
  auto add = [](std::vector<std::string>& to, const std::vector<std::string>& from) {
    for (const std::string& text : from) {
      if (std::find(to.begin(), to.end(), text) == to.end()) to.push_back(text);
    }
  };
  for (ckpt::Report& one : read) {
    ckpt::narrow_report(one, average.root);
    add(report.warnings, one.warnings);
    add(report.relaxations, one.relaxations);
    add(report.foreign, one.foreign);
    add(report.globals, one.globals);
  }
  CarryPlan plan{format_written(options, average), parse_address(options.files.back()), options.output, options.drop,
                 options.foreign_objects};
  carry_objects(average, plan, report);
  return report;
}

/// Returns what was written, for the closing line.
std::string write_average(Context& context, const Options& options, const ckpt::Checkpoint& average,
                          ckpt::Report& report) {
  ckpt::SaveOptions save = save_options(options);
  save.format = std::string(format_written(options, average)->name);
  save.report = &report;
  std::string title = save_to(context, options, average, options.output, save);
  return written_text(report.bytes_written, title);
}

int run(Context& context, const Options& options) {
  ckpt::AverageOptions average{.weights = parse_weights(options.weights), .ema_decay = options.ema};
  std::vector<ckpt::Report> read(options.files.size());
  std::vector<ckpt::Checkpoint> checkpoints;
  for (const std::string& file : options.files) {
    Address source = parse_address(file);
    check_target(options, {source, options.output, ""});
    average.at.push_back(source.at);
    checkpoints.push_back(ckpt::open(source.path, options.look(read[checkpoints.size()])));
  }
  ckpt::AverageReport done;
  ckpt::Checkpoint result = ckpt::average(checkpoints, average, &done);
  ckpt::Report report = report_of(options, result, std::move(read));
  warn(done, report);
  std::string written = options.dry_run ? "nothing written (dry run)" : write_average(context, options, result, report);
  say_report(options, options.output, report);
  if (options.json) {
    context.out.answer_is_one();
    ckpt::JsonWriter json(2);
    write_json(json, options, done, report);
    context.out.print(json.text() + "\n");
  } else if (!options.quiet) {
    bool piped = is_standard_output(options.output);
    std::string line = (piped ? "standard output" : core::printable(options.output)) + ": " +
                       count_of(done.averaged, "tensor") + " averaged over " + count_of(done.checkpoints, "file") +
                       ", " + written;
    piped ? print_error_line(line) : context.out.print(line + "\n");
  }
  return 0;
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
