// ckpt doctor: what this installation and this machine can do, what may be undone, and what killed programs left.

#include <algorithm>

#include "libckpt/io/json.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/doctor_checks.h"
#include "tools/ckpt/exit_code.h"

namespace cli {
namespace {

struct Options {
  std::string path = ".";
  bool sweep = false;
  bool json = false;
  bool quiet = false;
};

std::vector<DoctorLine> examine(const Options& options) {
  std::vector<DoctorLine> all = {{"tool", "version", std::string("ckpt ") + CKPT_VERSION}};
  for (const std::vector<DoctorLine>& part :
       {examine_formats(), examine_helpers(), examine_machine(), examine_folder(options.path),
        examine_edits(options.path), examine_leftovers(options.path), examine_defaults()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

void print_lines(Output& out, const std::vector<DoctorLine>& lines) {
  std::string topic;
  std::size_t widest = 0;
  for (const DoctorLine& line : lines) widest = std::max(widest, display_width(line.name));
  for (const DoctorLine& line : lines) {
    if (line.topic != topic) {
      out.print_heading(line.topic);
      out.print("\n");
      topic = line.topic;
    }
    std::string mark = line.state == DoctorLine::State::good   ? "  "
                       : line.state == DoctorLine::State::note ? "- "
                                                               : "! ";
    out.print_tone(line.state == DoctorLine::State::missing ? Tone::bad : Tone::warning, mark);
    out.print(line.name + std::string(widest - display_width(line.name) + 2, ' ') + line.value);
    out.print(line.advice.empty() ? "\n" : "  (" + line.advice + ")\n");
  }
}

std::string json_text(const std::vector<DoctorLine>& lines, bool good) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("good").value(good);
  json.key("lines").begin_array();
  for (const DoctorLine& line : lines) {
    json.begin_object();
    json.key("topic").value(line.topic);
    json.key("name").value(line.name);
    json.key("value").value(line.value);
    json.key("state").value(name(line.state));
    if (!line.advice.empty()) json.key("advice").value(line.advice);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.take() + "\n";
}

/// Says what was removed and what is left.
int sweep(Context& context, const Options& options) {
  std::vector<DoctorLine> lines = sweep_folder(options.path);
  std::uint64_t removed = lines.size();
  for (DoctorLine& line : examine_leftovers(options.path)) lines.push_back(std::move(line));
  if (options.json) {
    context.out.print(json_text(lines, true));
  } else if (!options.quiet) {
    print_lines(context.out, lines);
    context.out.print(count_of(removed, "file") + " removed\n");
  }
  return kDone;
}

int run(Context& context, const Options& options) {
  if (options.sweep) return sweep(context, options);
  std::vector<DoctorLine> lines = examine(options);
  auto missing = std::count_if(lines.begin(), lines.end(),
                               [](const DoctorLine& line) { return line.state == DoctorLine::State::missing; });
  if (options.json) {
    context.out.print(json_text(lines, missing == 0));
  } else if (!options.quiet) {
    print_lines(context.out, lines);
    auto count = static_cast<std::uint64_t>(missing);
    context.out.print_tone(missing == 0 ? Tone::good : Tone::bad,
                           missing == 0 ? "nothing is missing\n" : count_of(count, "thing") + " missing, marked '!'\n");
  }
  return missing == 0 ? kDone : kNo;
}

}  // namespace

void add_doctor(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "doctor", "ckpt doctor\n  ckpt doctor runs/",
                  "Say what this installation can do, what it runs on, and what is missing; exit 1 then.");
  auto options = std::make_shared<Options>();
  command.add_option("PATH", options->path, "folder in which a save and an edit are tried (default: here)")
      .type_name("");
  command.add_flag("--sweep", options->sweep,
                   "remove hidden files that killed programs left in the folder, and say what is left");
  add_json_options(command, options->json);
  command.add_flag("-q,--quiet", options->quiet, "only the exit code");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
