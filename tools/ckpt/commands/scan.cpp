// ckpt scan: what a file could make a program do that loads it.

#include <algorithm>

#include "libckpt/scan.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/hints.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"

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
    verdict.resize(std::max<std::size_t>(verdict.size(), 9), ' ');
    out.print("    " + verdict + "  " + core::printable(symbol.name) +
              (symbol.calls > 0 ? " (" + count_of(symbol.calls, "call") + ")" : "") + "\n");
  }
}

void print_finding(Output& out, const std::string& start, const ckpt::Finding& finding) {
  out.print(start + core::printable(finding.subject) + ": " + one_line(with_advice(finding.text, finding.hint)) + "\n");
}

/// What attacks stands before what is merely foreign.
void print_findings(Output& out, const std::string& start, const ckpt::ScanResult& result) {
  for (ckpt::FindingKind kind : {ckpt::FindingKind::danger, ckpt::FindingKind::problem, ckpt::FindingKind::foreign}) {
    for (std::size_t i = 0; i < result.findings.size(); ++i) {
      if (result.kinds[i] != kind) continue;
      print_finding(out, start + std::string(ckpt::name(kind)) + ": ", result.findings[i]);
    }
  }
  for (const ckpt::Finding& part : result.unread) print_finding(out, start + "not analysed: ", part);
}

std::string verdict_of(const ckpt::ScanResult& result) {
  auto count = [&](ckpt::FindingKind kind) { return std::count(result.kinds.begin(), result.kinds.end(), kind); };
  auto found = [&](ckpt::FindingKind kind, const char* noun) {
    return count_of(static_cast<std::uint64_t>(count(kind)), noun);
  };
  std::vector<std::string> parts;
  if (result.has(ckpt::FindingKind::danger)) {
    parts.push_back("DANGEROUS, do not load it with pickle or torch.load: " + found(ckpt::FindingKind::danger, "sign") +
                    " of an attack");
  }
  if (!result.complete()) parts.emplace_back("not read to its end, so it may hold more");
  if (result.has(ckpt::FindingKind::problem)) parts.push_back(found(ckpt::FindingKind::problem, "finding"));
  if (result.has(ckpt::FindingKind::foreign)) {
    parts.push_back(
        found(ckpt::FindingKind::foreign, "foreign name") +
        (result.verdict() == "foreign" ? ", none known as an attack; loading imports and runs their code" : ""));
  }
  return parts.empty() ? "clean" : core::join(parts, "; ");
}

void print_result(Output& out, const std::string& name, const ckpt::ScanResult& result, bool pickles) {
  std::string start = core::printable(name) + ": ";
  if (pickles) {
    out.print(start + one_line(result.content) + "\n");
    for (const ckpt::ScannedPickle& pickle : result.pickles) print_pickle(out, pickle);
  }
  print_findings(out, start, result);
  out.print(start);
  out.print_tone(result.clean() && result.complete() ? Tone::good : Tone::bad, verdict_of(result));
  out.print("; " + count_of(result.parts, "part") + " looked at, " + count_of(result.pickles.size(), "pickle") + "\n");
}

void write_findings(ckpt::JsonWriter& json, std::string_view key, const std::vector<ckpt::Finding>& findings,
                    const std::vector<ckpt::FindingKind>& kinds = {}) {
  json.key(key).begin_array();
  for (std::size_t i = 0; i < findings.size(); ++i) {
    json.begin_object();
    if (i < kinds.size()) json.key("kind").value(ckpt::name(kinds[i]));
    json.key("subject").value(findings[i].subject);
    json.key("text").value(with_advice(findings[i].text, findings[i].hint));
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
    if (!symbol.call_texts.empty()) {
      json.key("arguments").begin_array();
      for (const std::string& text : symbol.call_texts) json.value(text);
      json.end_array();
    }
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

void write_json(ckpt::JsonWriter& json, const std::string& name, const ckpt::ScanResult& result) {
  json.begin_object();
  json.key("path").value(name);
  json.key("content").value(result.content);
  json.key("verdict").value(result.verdict());
  json.key("clean").value(result.clean());
  json.key("complete").value(result.complete());
  json.key("parts").value(result.parts);
  json.key("pickles").begin_array();
  for (const ckpt::ScannedPickle& pickle : result.pickles) write_pickle(json, pickle);
  json.end_array();
  write_findings(json, "findings", result.findings, result.kinds);
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
  CommandSpec command =
      add_command(app, "scan", "ckpt scan best.pth\n  ckpt scan --json downloads/*.pth",
                  "List every symbol that the pickles in a file name, and all other code it carries. "
                  "Signs of an attack are told apart from names that are merely foreign, such as classes of a project. "
                  "Exit 0: clean; 1: dangerous, foreign or another finding; 3: not read to its end. "
                  "Nothing is executed.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "any file, or the folder of a model").required().type_name("");
  add_read_options(command, *options);
  add_remote_options(command);
  command.remove_options({"--foreign-objects"});  // they are findings
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
