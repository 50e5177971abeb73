#include "tools/ckpt/edit/combine.h"

#include <algorithm>

#include "libckpt/format/format.h"
#include "libckpt/objects.h"
#include "libckpt/open_save.h"
#include "libcore/base/text.h"
#include "tools/ckpt/edit/carried_objects.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/edit/standard_output.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

void write_json(ckpt::JsonWriter& json, const EditOptions& options, const std::string& command, const Combination& made,
                const ckpt::Report& report) {
  json.begin_object();
  json.key("command").value(command);
  json.key("inputs").begin_array();
  for (const std::string& file : options.files) json.value(file);
  json.end_array();
  json.key("output").value(options.output);
  json.key("dry_run").value(options.dry_run);
  json.key("bytes_written").value(report.bytes_written);
  made.json(json);
  write_report(json, report);
  json.end_object();
}

const ckpt::Format* format_written(const EditOptions& options, const ckpt::Checkpoint& made) {
  const ckpt::Format* by_name = ckpt::find_format_for(options.output);
  return by_name != nullptr ? by_name : ckpt::find_format(made.format);
}

/// What reading said, as far as it is about the result, each once.
ckpt::Report report_of(const EditOptions& options, ckpt::Checkpoint& made, std::vector<ckpt::Report> read) {
  ckpt::Report report;
  auto add = [](std::vector<std::string>& to, const std::vector<std::string>& from) {
    for (const std::string& text : from) {
      if (std::find(to.begin(), to.end(), text) == to.end()) to.push_back(text);
    }
  };
  for (ckpt::Report& one : read) {
    ckpt::narrow_report(one, made.root);
    add(report.warnings, one.warnings);
    add(report.relaxations, one.relaxations);
    add(report.foreign, one.foreign);
    add(report.globals, one.globals);
  }
  CarryPlan plan{format_written(options, made), parse_address(options.files.back()), options.output, options.drop,
                 options.foreign_objects};
  carry_objects(made, plan, report);
  return report;
}

/// Returns what was written, for the closing line.
std::string write_result(Context& context, const EditOptions& options, const ckpt::Checkpoint& made,
                         ckpt::Report& report) {
  ckpt::SaveOptions save = save_options(options);
  save.format = std::string(format_written(options, made)->name);
  save.report = &report;
  std::string title = save_to(context, options, made, options.output, save);
  return written_text(report.bytes_written, title);
}

void say_result(Context& context, const EditOptions& options, const std::string& text) {
  bool piped = is_standard_output(options.output);
  std::string line = (piped ? "standard output" : core::printable(options.output)) + ": " + text;
  piped ? print_error_line(line) : context.out.print(line + "\n");
}

}  // namespace

std::string differing_text(const std::vector<std::string>& names, const std::string& counted,
                           const std::string& whose) {
  const bool one = names.size() == 1;
  return counted + (one ? " differs" : " differ") + " between the files (" + core::quote(names.front()) +
         (one ? "" : ", ...") + "); " + whose + " are taken";
}

int run_combination(Context& context, const EditOptions& options, const std::string& command,
                    const CombineFunction& combine) {
  std::vector<ckpt::Report> read(options.files.size());
  std::vector<ckpt::Checkpoint> checkpoints;
  std::vector<std::string> at;
  for (const std::string& file : options.files) {
    Address source = parse_address(file);
    check_target(options, {source, options.output, ""});
    at.push_back(source.at);
    checkpoints.push_back(ckpt::open(source.path, options.look(read[checkpoints.size()])));
  }
  Combination made = combine(checkpoints, std::move(at));
  ckpt::Report report = report_of(options, made.checkpoint, std::move(read));
  report.warnings.insert(report.warnings.end(), made.warnings.begin(), made.warnings.end());
  std::string written =
      options.dry_run ? "nothing written (dry run)" : write_result(context, options, made.checkpoint, report);
  say_report(options, options.output, report);
  if (options.json) {
    context.out.answer_is_one();
    ckpt::JsonWriter json(2);
    write_json(json, options, command, made, report);
    context.out.print(json.text() + "\n");
  } else if (!options.quiet) {
    say_result(context, options, made.summary + ", " + written);
  }
  return 0;
}

}  // namespace cli
