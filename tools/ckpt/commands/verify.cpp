// ckpt verify: reads every byte of a file and compares it with what the file says about itself.

#include <algorithm>

#include "libckpt/analyze/deep_verify.h"
#include "libckpt/open_save.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/hints.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/output/few_of_a_kind.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::vector<std::string> files;
  bool deep = false;
};

ckpt::VerifyResult verify_file(const Options& options, const std::string& file, ckpt::Report& report) {
  Address address = parse_address(file);
  ProgressBar bar(core::printable(std::filesystem::path(address.shown()).filename().string()), !options.quiet);
  auto verify = options.deep ? ckpt::deep_verify : ckpt::verify;
  return verify(address.path, options.open(report), bar.hook());
}

/// "good" is for what was compared with checksums alone.
std::string verdict_of(const ckpt::VerifyResult& result) {
  if (!result.damage.empty()) return count_of(result.damage.size(), "finding");
  switch (result.checksums) {
    case ckpt::ChecksumCover::none:
      return "readable; the format has no checksums";
    case ckpt::ChecksumCover::absent:
      return "readable; the file was written without checksums";
    case ckpt::ChecksumCover::some:
      return "readable, and good where it has checksums";
    default:
      return "good";
  }
}

std::vector<std::string> note_lines(const ckpt::VerifyResult& result) {
  std::vector<std::string> lines;
  for (const ckpt::Finding& note : result.notes)
    lines.push_back(core::printable(note.subject) + ": " + with_advice(note.text, note.hint));
  return lines;
}

void print_result(Output& out, const std::string& file, const ckpt::VerifyResult& result) {
  std::string start = core::printable(file) + ": ";
  for (const ckpt::Finding& finding : result.damage) {
    out.print(start);
    out.print_bad("finding: ");
    out.print(core::printable(finding.subject) + ": " + core::printable(with_advice(finding.text, finding.hint)) +
              "\n");
  }
  for (const Said& said : few_of_a_kind(note_lines(result))) out.print(start + "note: " + one_line(said.text) + "\n");
  bool compared = result.checksums >= ckpt::ChecksumCover::some;
  out.print(start);
  out.print_tone(result.damage.empty() ? Tone::good : Tone::bad, verdict_of(result));
  out.print("; " + count_of(result.tensors_checked, "tensor") + ", " + core::format_size(result.bytes_checked) +
            (compared ? " checked by " : " read: ") + result.method + "\n");
}

void write_findings(ckpt::JsonWriter& json, std::string_view key, const std::vector<ckpt::Finding>& findings) {
  json.key(key).begin_array();
  for (const ckpt::Finding& finding : findings) {
    json.begin_object();
    json.key("subject").value(finding.subject);
    json.key("text").value(with_advice(finding.text, finding.hint));
    json.end_object();
  }
  json.end_array();
}

void write_json(ckpt::JsonWriter& json, const std::string& file, const ckpt::VerifyResult& result,
                const ckpt::Report& report) {
  json.begin_object();
  json.key("path").value(file);
  json.key("good").value(result.damage.empty());
  json.key("complete").value(result.complete);
  json.key("tensors_checked").value(result.tensors_checked);
  json.key("bytes_checked").value(result.bytes_checked);
  json.key("method").value(result.method);
  json.key("checksums").value(ckpt::name(result.checksums));
  write_findings(json, "damage", result.damage);
  write_findings(json, "notes", result.notes);
  write_report(json, report);
  json.end_object();
}

int run(Context& context, const Options& options) {
  ckpt::JsonWriter json(2);
  int code = kDone;
  if (options.files.size() > 1) json.begin_array();
  for (const std::string& file : options.files) {
    ckpt::Report report;
    ckpt::VerifyResult result = verify_file(options, file, report);
    code = std::max<int>(code, !result.complete ? kBad : result.damage.empty() ? kDone : kNo);
    std::string shown = parse_address(file).shown();
    say_report(options, shown, report);
    if (options.json) {
      write_json(json, shown, result, report);
    } else if (!options.quiet) {
      print_result(context.out, shown, result);
      context.out.flush();
    }
  }
  if (options.files.size() > 1) json.end_array();
  if (options.json) context.out.print(json.text() + "\n");
  return code;
}

}  // namespace

void add_verify(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "verify", "ckpt verify net.ckpt\n  ckpt verify --json runs/*.pth\n  ckpt verify --deep net.ckpt",
                  "Read every byte, compare it with the checksums the file has, and look for code and foreign "
                  "symbols; exit 1 on findings. 'readable' instead of 'good' means that there is no checksum to "
                  "compare with.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "checkpoint").required().type_name("");
  command.add_flag(
      "--deep", options->deep,
      "read from the disk, not from what the system keeps of the file in memory; then read every tensor as "
      "loading does, and name those that hold NaN or infinite values");
  add_read_options(command, *options);
  add_io_option(command, *options);
  command.remove_options({"--foreign-objects"});  // they are findings
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
