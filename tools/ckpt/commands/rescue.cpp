// ckpt rescue: saves what can be saved of a damaged file, with its parity data or without.

#include "libckpt/rescue.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/replaced_file.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/hints.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"
#include "tools/support/interrupt.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::size_t kMaxShown = 20;

struct Options : ReadOptions {
  std::string file;
  std::string output;
  std::string format;
  bool in_place = false;
  bool follow = false;
  bool dry_run = false;
  bool force = false;
};

std::filesystem::path target_of(const Options& options) {
  if (options.in_place) return options.file;
  return options.output.empty() ? derived_name(options.file, "rescued") : std::filesystem::path(options.output);
}

void check(const Options& options, const std::filesystem::path& target) {
  if (options.in_place && !options.output.empty()) {
    throw Error(ErrorCode::usage, "-o and --in-place contradict each other");
  }
  std::error_code ignored;
  if (options.in_place) check_replaced(target, {.follow = options.follow, .force = options.force});
  if (options.in_place || !std::filesystem::exists(target, ignored)) return;
  if (same_file(options.file, target)) {
    throw Error(ErrorCode::usage, "is both input and output; use --in-place to replace it")
        .add_context(target.string());
  }
  if (!options.force) throw Error(ErrorCode::io, "exists already; use -f to overwrite it").add_context(target.string());
}

/// The first few of a list, one line each, and how many more.
template <class Item, class Line>
void print_some(Output& out, const std::vector<Item>& items, const Line& line) {
  for (std::size_t i = 0; i < items.size() && i < kMaxShown; ++i) out.print("  " + line(items[i]) + "\n");
  if (items.size() > kMaxShown) out.print("  and " + core::format_count(items.size() - kMaxShown) + " more\n");
}

std::string part_line(const ckpt::RestoredPart& part) {
  std::string blocks = part.blocks > 0 ? " (" + count_of(part.blocks, "block") + ")" : "";
  return "restored  " + core::printable(part.subject) + blocks;
}

std::string finding_line(const char* what, const ckpt::Finding& finding) {
  return what + core::printable(finding.subject) + ": " + core::printable(with_advice(finding.text, finding.hint));
}

std::string verdict_of(const ckpt::RescueReport& report) {
  if (!report.damaged) return "nothing is damaged, " + count_of(report.tensors, "tensor");
  if (report.whole) return "restored byte for byte, " + count_of(report.tensors, "tensor");
  std::string kept = count_of(report.tensors, "tensor") + " kept, " + core::format_count(report.lost.size()) + " lost";
  return report.proven ? kept : kept + "; they look intact, but there is no checksum to prove it";
}

void print_result(Output& out, const Options& options, const std::filesystem::path& target,
                  const ckpt::RescueReport& report) {
  print_some(out, report.restored, part_line);
  print_some(out, report.lost, [](const ckpt::Finding& lost) { return finding_line("lost      ", lost); });
  print_some(out, report.notes, [](const ckpt::Finding& note) { return finding_line("note      ", note); });
  if (report.blocks > 0 && report.damaged) {
    out.print("  " + core::format_count(report.blocks_restored) + " of " + count_of(report.blocks, "block") + " of " +
              core::format_size(report.block_bytes) + " restored, " + core::format_count(report.blocks_lost) +
              " beyond what the parity data can restore\n");
  }
  out.print(core::printable(target.string()) + ": ");
  out.print_tone(report.lost.empty() ? Tone::good : Tone::warning, verdict_of(report));
  if (!report.written) out.print(options.dry_run ? ", nothing written (dry run)" : ", nothing written");
  out.print("\n");
}

void write_findings(ckpt::JsonWriter& json, const char* key, const std::vector<ckpt::Finding>& findings) {
  json.key(key).begin_array();
  for (const ckpt::Finding& finding : findings) {
    json.begin_object();
    json.key("subject").value(finding.subject);
    json.key("text").value(with_advice(finding.text, finding.hint));
    json.end_object();
  }
  json.end_array();
}

void write_restored(ckpt::JsonWriter& json, const ckpt::RescueReport& report) {
  json.key("restored").begin_array();
  for (const ckpt::RestoredPart& part : report.restored) {
    json.begin_object();
    json.key("subject").value(part.subject);
    json.key("blocks").value(part.blocks);
    json.end_object();
  }
  json.end_array();
}

std::string json_of(const Options& options, const std::filesystem::path& target, const ckpt::RescueReport& report,
                    const ckpt::Report& said) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("path").value(options.file);
  json.key("output").value(target.string());
  json.key("format").value(report.format);
  json.key("damaged").value(report.damaged);
  json.key("whole").value(report.whole);
  json.key("proven").value(report.proven);
  json.key("written").value(report.written);
  json.key("tensors").value(report.tensors);
  json.key("blocks").value(report.blocks);
  json.key("block_bytes").value(report.block_bytes);
  json.key("blocks_restored").value(report.blocks_restored);
  json.key("blocks_lost").value(report.blocks_lost);
  write_restored(json, report);
  write_findings(json, "lost", report.lost);
  write_findings(json, "notes", report.notes);
  write_report(json, said);
  json.end_object();
  return json.text() + "\n";
}

ckpt::RescueReport rescue_file(const Options& options, const std::filesystem::path& target, ckpt::Report& said) {
  InterruptGuard guard;
  ProgressBar bar(core::printable(target.filename().string()), !options.quiet);
  ckpt::RescueOptions rescue;
  rescue.format = options.format;
  rescue.overwrite = options.force;
  rescue.in_place = options.in_place;
  rescue.dry_run = options.dry_run;
  rescue.threads = options.threads;
  rescue.progress = bar.hook();
  rescue.report = &said;
  return ckpt::rescue(options.file, target, rescue);
}

int run(Context& context, const Options& options) {
  std::filesystem::path target = target_of(options);
  check(options, target);
  ckpt::Report said;
  ckpt::RescueReport report = rescue_file(options, target, said);
  say_report(options, options.file, said);
  if (options.json) {
    context.out.print(json_of(options, target, report, said));
  } else if (!options.quiet) {
    print_result(context.out, options, target, report);
  }
  return report.lost.empty() ? kDone : kNo;
}

}  // namespace

void add_rescue(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "rescue", "ckpt rescue net.ckpt -o saved.ckpt\n  ckpt rescue --dry-run net.pth",
                  "Save what can be saved of a damaged file. A .ckpt with parity data (--parity) is restored byte for "
                  "byte; of other files, the tensors that are provably intact are kept. Exit 1 when some are lost.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->file, "damaged checkpoint: .ckpt, .pth, .npz, .safetensors, ...")
      .required()
      .type_name("");
  command.add_option("-o,--output", options->output, "output (default: NAME.rescued.EXT beside the input)")
      .type_name("OUT");
  command.add_option("--format", options->format, "format of the output, whatever its name").type_name("NAME");
  command.add_flag("--in-place", options->in_place, "replace the input, atomically; only when nothing of it is lost");
  command.add_flag("--follow", options->follow, "with --in-place: replace the file behind a symbolic link");
  command.add_flag("-n,--dry-run", options->dry_run, "say what could be saved and write nothing");
  command.add_flag("-f,--force", options->force,
                   "overwrite an existing output; with --in-place also a read-only file or one with hard links");
  add_read_options(command, *options);
  command.remove_options({"--lenient", "--foreign-objects"});
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
