// ckpt scan: what a file could make a program do that loads it.

#include <algorithm>

#include "libckpt/scan.h"
#include "libcore/base/text.h"
#include "tools/ckpt/address.h"
#include "tools/ckpt/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/listing.h"
#include "tools/ckpt/progress.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::vector<std::string> files;
};

ckpt::ScanResult scan_file(const Options& options, const Address& address, ckpt::Report& report) {
  ProgressBar bar(core::printable(address.path.filename().string()), !options.quiet);
  return ckpt::scan(address.path, options.open(report), bar.hook());
}

int code_of(const ckpt::ScanResult& result) {
  if (!result.complete()) return kBad;
  return result.clean() ? kDone : kNo;
}

void print_pickle(Output& out, const ckpt::ScannedPickle& pickle) {
  out.print("  " + core::printable(pickle.where) + ": pickle of " + core::format_size(pickle.bytes) +
            (pickle.complete ? "" : ", not read to its end") + "\n");
  for (const ckpt::ScannedSymbol& symbol : pickle.symbols) {
    std::string verdict(ckpt::verdict_text(symbol.verdict));
    verdict.resize(std::max<std::size_t>(verdict.size(), 11), ' ');
    out.print("    " + verdict + "  " + core::printable(symbol.name) +
              (symbol.calls > 0 ? " (" + count_of(symbol.calls, "call") + ")" : "") + "\n");
  }
}

void print_findings(Output& out, const std::string& start, const std::string& word,
                    const std::vector<ckpt::Finding>& findings) {
  for (const ckpt::Finding& finding : findings) {
    out.print(start + word + ": " + core::printable(finding.subject) + ": " + core::printable(finding.text) + "\n");
  }
}

std::string verdict_of(const ckpt::ScanResult& result) {
  if (!result.complete()) return "not analysed to its end, so it is not cleared";
  if (!result.findings.empty()) return count_of(result.findings.size(), "finding");
  return "clean";
}

void print_result(Output& out, const std::string& name, const ckpt::ScanResult& result, bool pickles) {
  std::string start = core::printable(name) + ": ";
  if (pickles) {
    out.print(start + one_line(result.content) + "\n");
    for (const ckpt::ScannedPickle& pickle : result.pickles) print_pickle(out, pickle);
  }
  print_findings(out, start, "finding", result.findings);
  print_findings(out, start, "not analysed", result.unread);
  out.print(start);
  out.print_tone(result.clean() && result.complete() ? Tone::good : Tone::bad, verdict_of(result));
  out.print("; " + count_of(result.parts, "part") + " looked at, " + count_of(result.pickles.size(), "pickle") + "\n");
}

void write_findings(ckpt::JsonWriter& json, std::string_view key, const std::vector<ckpt::Finding>& findings) {
  json.key(key).begin_array();
  for (const ckpt::Finding& finding : findings) {
    json.begin_object();
    json.key("subject").value(finding.subject);
    json.key("text").value(finding.text);
    json.end_object();
  }
  json.end_array();
}

void write_pickle(ckpt::JsonWriter& json, const ckpt::ScannedPickle& pickle) {
  json.begin_object();
  json.key("where").value(pickle.where);
  json.key("bytes").value(pickle.bytes);
  json.key("complete").value(pickle.complete);
  json.key("symbols").begin_array();
  for (const ckpt::ScannedSymbol& symbol : pickle.symbols) {
    json.begin_object();
    json.key("name").value(symbol.name);
    json.key("verdict").value(ckpt::verdict_text(symbol.verdict));
    json.key("calls").value(symbol.calls);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

void write_json(ckpt::JsonWriter& json, const std::string& name, const ckpt::ScanResult& result) {
  json.begin_object();
  json.key("path").value(name);
  json.key("content").value(result.content);
  json.key("clean").value(result.clean());
  json.key("complete").value(result.complete());
  json.key("parts").value(result.parts);
  json.key("pickles").begin_array();
  for (const ckpt::ScannedPickle& pickle : result.pickles) write_pickle(json, pickle);
  json.end_array();
  write_findings(json, "findings", result.findings);
  write_findings(json, "unread", result.unread);
  write_findings(json, "notes", result.notes);
  json.end_object();
}

int run(Context& context, const Options& options) {
  ckpt::JsonWriter json(2);
  int code = kDone;
  if (options.files.size() > 1) json.begin_array();
  for (const std::string& file : options.files) {
    Address address = parse_address(file);
    ckpt::Report report;
    ckpt::ScanResult result = scan_file(options, address, report);
    code = std::max(code, code_of(result));
    if (options.json) {
      write_json(json, address.shown(), result);
    } else {
      print_result(context.out, address.shown(), result, !options.quiet);
      context.out.flush();
    }
  }
  if (options.files.size() > 1) json.end_array();
  if (options.json) context.out.print(json.text() + "\n");
  return code;
}

}  // namespace

void add_scan(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "scan", "ckpt scan best.pth\n  ckpt scan --json downloads/*.pth",
                                    "List every symbol that the pickles in a file name, and all other code it carries. "
                                    "Exit 0: clean; 1: findings; 3: not analysed to its end. Nothing is executed.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "any file, or the folder of a model").required().type_name("");
  add_read_options(command, *options);
  command.remove_options({"--foreign-objects"});  // they are findings
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
