// ckpt why: why a checkpoint does not load, and the one command that makes it load.

#include <unistd.h>

#include <filesystem>

#include "libckpt/format/folder.h"
#include "libckpt/format/format.h"
#include "libckpt/io/json.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/why_target.h"
#include "tools/ckpt/commands/why_whole_part.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/hints.h"
#include "tools/ckpt/line/address.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::string file;
  std::int64_t devices = -1;
  TargetOptions target;
};

/// NVIDIA GPUs of this machine, as the driver lists them; no library is loaded for that.
std::int64_t count_gpus() {
  std::error_code error;
  std::filesystem::directory_iterator gpus("/proc/driver/nvidia/gpus", error);
  if (error) return 0;
  return std::distance(gpus, std::filesystem::directory_iterator());
}

std::string match_text(const ckpt::Match& match) {
  return core::format_count(match.keys) + " of " + core::format_count(match.wanted);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "" : " (" + std::to_string(part * 100 / whole) + " % of the bytes)";
}

std::string steps_text(const ckpt::FixPlan& plan) {
  std::string text;
  for (const ckpt::FixStep& step : plan.steps) text += (text.empty() ? "" : " \u2192 ") + step.text;
  return text;
}

std::string confidence_text(double confidence) {
  if (confidence >= 0.9) return "";
  if (confidence >= 0.7) return "likely: ";
  return confidence >= 0.5 ? "perhaps: " : "a guess: ";
}

void print_match(Output& out, const ckpt::Diagnosis& d) {
  if (d.target.empty() || d.before.wanted == 0) return;
  if (!d.names_match() || d.shapes_known) {
    out.print_tone(d.names_match() ? Tone::good : Tone::bad, d.names_match() ? "\u2713 " : "\u2717 ");
  }
  out.print(match_text(d.before) + " keys match " + core::printable(d.target) +
            percent(d.before.bytes, d.before.bytes_wanted));
  if (!d.plan.empty()) {
    out.print(" \u00b7 ");
    out.print_tone(d.fixable() ? Tone::good : Tone::bad, d.fixable() ? "\u2713 " : "\u2717 ");
    out.print(match_text(d.after) + " after: " + one_line(steps_text(d.plan)));
  }
  out.print("\n");
  for (std::size_t i = 0; i < d.also.size(); ++i) {
    out.print("  " + core::printable(d.also[i]) + ": " + match_text(d.others[i]) + " keys would match\n");
  }
}

/// What load_state_dict would still say, in its words.
void print_problems(Output& out, const ckpt::Diagnosis& d) {
  auto print = [&](std::string_view what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    constexpr std::size_t kShown = 6;
    std::string text;
    for (std::size_t i = 0; i < names.size() && i < kShown; ++i) text += (i == 0 ? "" : ", ") + core::quote(names[i]);
    if (names.size() > kShown) text += " and " + core::format_count(names.size() - kShown) + " more";
    out.print("  " + std::string(what) + " (" + core::format_count(names.size()) + "): " + text + "\n");
  };
  if (d.target.empty() || d.proven) return;
  out.print_heading(d.plan.empty() ? "load_state_dict says\n" : "load_state_dict would still say\n");
  print("missing keys", d.missing);
  print("unexpected keys", d.unexpected);
  for (std::size_t i = 0; i < d.mismatched.size() && i < 4; ++i) out.print("  " + one_line(d.mismatched[i]) + "\n");
  if (d.mismatched.size() > 4)
    out.print("  and " + core::format_count(d.mismatched.size() - 4) + " more of another shape\n");
}

void print_cause(Output& out, const ckpt::Diagnosis& d, std::size_t i) {
  const ckpt::Cause& cause = d.causes[i];
  out.print("  " + std::to_string(i + 1) + ". " + confidence_text(cause.confidence) +
            one_line(with_advice(cause.text, cause.hint)));
  if (d.causes.size() > 1 && cause.before.keys != cause.after.keys) {
    out.print("  [" + core::format_count(cause.before.keys) + " \u2192 " + match_text(cause.after) + " keys]");
  }
  out.print("\n");
  for (const std::string& line : cause.evidence) out.print("     " + one_line(line) + "\n");
  if (!cause.advice.empty() && d.readable) out.print("     advice: " + one_line(cause.advice) + "\n");
}

/// The place that was named is a folder, with the file in it.
bool is_folder(const ckpt::Diagnosis& d) {
  std::error_code ignored;
  return std::filesystem::is_directory(d.subject, ignored);
}

bool is_for_libckpt_alone(const ckpt::Diagnosis& d) {
  const ckpt::Format* format = ckpt::find_format(d.format);
  return format != nullptr && format->python == ckpt::PythonReader::libckpt;
}

std::string loads_text(const ckpt::Diagnosis& d) {
  std::string file = is_folder(d) ? core::printable(d.path) + ": " : "";
  if (is_for_libckpt_alone(d)) return file + "libckpt loads it as it is; PyTorch does not read this format";
  if (!d.shapes_known) return file + "every name matches; sizes cannot be compared, as the list has names alone";
  return file + (d.target.empty() ? "nothing stands in the way of loading it" : "it loads as it is");
}

/// A line that loads what the command writes is nothing without it.
std::string python_of(const ckpt::Diagnosis& d, const std::string& command) {
  std::string python = ckpt::python_line(d);
  bool made = !command.empty() || !ckpt::convert_line(d).empty();
  return !made && python.ends_with("# after the command above") ? "" : python;
}

/// "ema": where the dict lies that a plan takes.
std::string dict_of(const ckpt::Diagnosis& d) {
  std::string at;
  for (const ckpt::Value& step : d.place) at += (at.empty() ? "" : ".") + ckpt::step_text(step);
  return at;
}

void print_lines(Output& out, const std::string& heading, const std::vector<std::string>& lines) {
  bool first = true;
  for (const std::string& line : lines) {
    if (line.empty()) continue;
    if (first) out.print_heading(heading + "\n");
    first = false;
    out.print("  " + line + "\n");
  }
}

/// The command and the line of Python for each of the other dicts that fit.
void print_alternatives(Output& out, const Options& options, const ckpt::Diagnosis& d) {
  for (const ckpt::Diagnosis& other : d.alternatives) {
    std::string command = ckpt::command_line(other, options.target.command());
    print_lines(out, "to take " + core::quote(dict_of(other)) + " instead", {command, python_of(other, command)});
  }
}

void print_text(Output& out, const Options& options, const ckpt::Diagnosis& d, const std::string& title) {
  out.print_heading(core::printable(d.subject));
  out.print("  " + title + (title.empty() || d.description.empty() ? "" : ", ") + one_line(d.description) + "\n");
  print_match(out, d);
  if (d.names_match()) out.print(loads_text(d) + "\n");
  if (!d.causes.empty()) out.print_heading("causes\n");
  for (std::size_t i = 0; i < d.causes.size(); ++i) print_cause(out, d, i);
  print_problems(out, d);
  for (const std::string& note : d.notes) out.print("note: " + one_line(note) + "\n");
  std::string command = ckpt::command_line(d, options.target.command());
  const std::string hedge = d.shapes_known ? "" : ", as far as names tell";
  if (!command.empty()) {
    print_lines(out, "fix" + hedge, {command});
  } else if (d.fixable() && !d.plan.empty()) {
    out.print("the message came by a pipe: save it in a file and name that with --error, and the command is shown\n");
  } else if (!d.readable && !d.causes.empty()) {
    out.print("advice: " + one_line(d.causes.front().advice) + "\n");
  }
  print_lines(out, "for PyTorch" + hedge, {ckpt::convert_line(d)});
  print_lines(out, "python" + hedge, {python_of(d, command)});
  print_alternatives(out, options, d);
  if (std::optional<WholePart> part = whole_part(d, ckpt::Limits{.max_expansion = options.max_expansion})) {
    print_lines(out, part->heading(), {part->command});
  }
}

void write_match(ckpt::JsonWriter& json, std::string_view key, const ckpt::Match& match) {
  json.key(key).begin_object();
  json.key("keys").value(match.keys);
  json.key("wanted").value(match.wanted);
  json.key("bytes").value(match.bytes);
  json.key("bytes_wanted").value(match.bytes_wanted);
  json.end_object();
}

void write_texts(ckpt::JsonWriter& json, std::string_view key, const std::vector<std::string>& texts) {
  json.key(key).begin_array();
  for (const std::string& text : texts) json.value(text);
  json.end_array();
}

void write_cause(ckpt::JsonWriter& json, const ckpt::Cause& cause) {
  json.begin_object();
  json.key("id").value(ckpt::name(cause.kind));
  json.key("title").value(ckpt::title(cause.kind));
  json.key("text").value(with_advice(cause.text, cause.hint));
  write_texts(json, "evidence", cause.evidence);
  write_match(json, "before", cause.before);
  write_match(json, "after", cause.after);
  json.key("confidence").value(cause.confidence);
  json.key("cured").value(cause.cured);
  json.key("advice").value(cause.advice);
  json.end_object();
}

void write_alternatives(ckpt::JsonWriter& json, const Options& options, const ckpt::Diagnosis& d) {
  json.key("alternatives").begin_array();
  for (const ckpt::Diagnosis& other : d.alternatives) {
    std::string command = ckpt::command_line(other, options.target.command());
    json.begin_object();
    json.key("at").value(dict_of(other));
    json.key("fix").value(command);
    json.key("python").value(python_of(other, command));
    json.end_object();
  }
  json.end_array();
}

std::string json_of(const Options& options, const ckpt::Diagnosis& d) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("command").value("why");
  json.key("path").value(d.subject);
  json.key("description").value(d.description);
  json.key("readable").value(d.readable);
  json.key("loads").value(d.loads() && !is_for_libckpt_alone(d) && !is_folder(d));  // in PyTorch, as it is
  json.key("fixable").value(d.fixable() && !d.plan.empty());
  json.key("shapes_known").value(d.shapes_known);
  json.key("target").value(d.target);
  json.key("nearest").value(d.nearest);
  write_match(json, "before", d.before);
  write_match(json, "after", d.after);
  json.key("causes").begin_array();
  for (const ckpt::Cause& cause : d.causes) write_cause(json, cause);
  json.end_array();
  json.key("steps").begin_array();
  for (const ckpt::FixStep& step : d.plan.steps) json.value(step.text);
  json.end_array();
  std::string command = ckpt::command_line(d, options.target.command());
  json.key("fix").value(command);
  json.key("python").value(python_of(d, command));
  json.key("for_pytorch").value(ckpt::convert_line(d));
  std::optional<WholePart> part = whole_part(d, ckpt::Limits{.max_expansion = options.max_expansion});
  json.key("rescue").value(part ? part->command : "");
  write_alternatives(json, options, d);
  write_texts(json, "missing", d.missing);
  write_texts(json, "unexpected", d.unexpected);
  write_texts(json, "mismatched", d.mismatched);
  write_texts(json, "notes", d.notes);
  json.end_object();
  return json.take() + "\n";
}

/// The format by its title; nothing for a file that cannot be read.
std::string title_of(const ckpt::Diagnosis& d) {
  const ckpt::Format* format = ckpt::find_format(d.format);
  return format == nullptr ? "" : std::string(format->title);
}

/// With a file; or, where an error message comes in and none is named, from that alone.
ckpt::Diagnosis diagnose(Options& options) {
  const bool alone = options.file.empty();
  Address address = alone ? Address() : parse_address(options.file);
  if (alone && options.target.error.empty()) {
    if (::isatty(STDIN_FILENO) != 0) {
      throw core::Error(core::ErrorCode::usage, "FILE is missing; see 'ckpt why --help'");
    }
    options.target.error = "-";
  }
  options.target.read_message();
  ckpt::WhyOptions why = options.target.why(options, address.at);
  why.cuda_devices = options.devices >= 0 ? options.devices : count_gpus();
  if (alone) return ckpt::why_message(why);
  ckpt::Diagnosis d = ckpt::why(address.path, why);
  d.subject = address.text();
  d.path = address.is_standard_input() ? "-" : ckpt::named_file(address.path).string();
  for (ckpt::Diagnosis& other : d.alternatives) other.path = d.path;
  return d;
}

int run(Context& context, Options options) {
  ckpt::Diagnosis d = diagnose(options);
  if (options.json) {
    context.out.print(json_of(options, d));
  } else if (options.quiet) {
    std::string command = ckpt::command_line(d, options.target.command());
    if (!command.empty()) context.out.print(command + "\n");
  } else {
    print_text(context.out, options, d, title_of(d));
  }
  if (!d.readable) return kBad;
  return d.names_match() ? kDone : kNo;
}

}  // namespace

void add_why(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "why",
                  "ckpt why best.pth --for resnet50\n  python train.py 2>&1 | ckpt why best.pth --error -\n  ckpt why "
                  "best.pth < error.txt",
                  "Say why a checkpoint does not load, and the one command that makes it load. Exit 0: nothing "
                  "has to be changed; 1: a cause was found; 3: it cannot be read.");
  auto options = std::make_shared<Options>();
  command
      .add_option(
          "FILE", options->file,
          "checkpoint; FILE::path means the dict of that name inside; without it, what an error message on standard "
          "input says")
      .type_name("");
  add_target_options(command, options->target);
  command.add_option("--devices", options->devices, "GPUs that the reader will have (default: those of this machine)")
      .type_name("N");
  add_read_options(command, *options);
  add_remote_options(command);
  command.remove_options({"--foreign-objects"});  // it looks past them anyway
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
