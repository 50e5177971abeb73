// ckpt reindex: brings the index of a native file up to date after another program edited it.

#include "libckpt/reindex.h"

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/replaced_file.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"

namespace cli {
namespace {

constexpr std::size_t kMaxShown = 20;

struct Options : ReadOptions {
  std::vector<std::string> files;
  std::string output;
  bool in_place = false;
  bool follow = false;
  bool dry_run = false;
  bool force = false;
};

ckpt::ReindexResult reindex_file(const Options& options, const std::string& file, ckpt::Report& report) {
  ProgressBar bar(core::printable(std::filesystem::path(file).filename().string()), !options.quiet && !options.dry_run);
  ckpt::ReindexOptions reindex;
  reindex.output = options.output;
  reindex.overwrite = options.force;
  reindex.dry_run = options.dry_run;
  reindex.unsandboxed = options.unsandboxed;
  reindex.threads = options.threads;
  reindex.progress = bar.hook();
  reindex.report = &report;
  return ckpt::reindex(file, reindex);
}

void print_names(Output& out, const char* what, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size() && i < kMaxShown; ++i) {
    out.print(std::string("  ") + what + "  " + core::printable(names[i]) + "\n");
  }
  if (names.size() > kMaxShown) {
    out.print(std::string("  ") + what + "  and " + core::format_count(names.size() - kMaxShown) + " more\n");
  }
}

void print_result(Output& out, const Options& options, const std::string& file, const ckpt::ReindexResult& result) {
  std::vector<std::string> renamed;
  for (const auto& [from, to] : result.renamed) renamed.push_back(from + " -> " + to);
  print_names(out, "changed", result.changed);
  print_names(out, "renamed", renamed);
  print_names(out, "added  ", result.added);
  print_names(out, "removed", result.removed);
  std::string target = core::printable(options.output.empty() ? file : options.output);
  std::string did = !result.needed && options.output.empty() ? "the index is up to date"
                    : options.dry_run                        ? "the index would be rewritten"
                                                             : "the index was rewritten";
  out.print(target + ": " + did + "; " + count_of(result.tensors, "tensor") + "\n");
}

void write_names(ckpt::JsonWriter& json, const char* key, const std::vector<std::string>& names) {
  json.key(key).begin_array();
  for (const std::string& name : names) json.value(name);
  json.end_array();
}

void write_json(ckpt::JsonWriter& json, const Options& options, const std::string& file,
                const ckpt::ReindexResult& result, const ckpt::Report& report) {
  json.begin_object();
  json.key("path").value(file);
  json.key("output").value(options.output.empty() ? file : options.output);
  json.key("needed").value(result.needed);
  json.key("written").value(!options.dry_run && (result.needed || !options.output.empty()));
  json.key("tensors").value(result.tensors);
  write_names(json, "changed", result.changed);
  json.key("renamed").begin_object();
  for (const auto& [from, to] : result.renamed) json.key(from).value(to);
  json.end_object();
  write_names(json, "added", result.added);
  write_names(json, "removed", result.removed);
  write_report(json, report);
  json.end_object();
}

void check(const Options& options) {
  using core::Error;
  using core::ErrorCode;
  if (options.in_place && !options.output.empty())
    throw Error(ErrorCode::usage, "-o and --in-place contradict each other");
  if (options.files.size() > 1 && !options.output.empty()) throw Error(ErrorCode::usage, "-o takes one file");
  if (!options.output.empty() || options.dry_run) return;
  for (const std::string& file : options.files) {
    check_replaced(file, {.follow = options.follow, .force = options.force});
  }
}

int run(Context& context, const Options& options) {
  check(options);
  ckpt::JsonWriter json(2);
  if (options.files.size() > 1) json.begin_array();
  for (const std::string& file : options.files) {
    ckpt::Report report;
    ckpt::ReindexResult result = reindex_file(options, file, report);
    say_report(options, file, report);
    if (options.json) {
      write_json(json, options, file, result, report);
    } else if (!options.quiet) {
      print_result(context.out, options, file, result);
    }
  }
  if (options.files.size() > 1) json.end_array();
  if (options.json) context.out.print(json.text() + "\n");
  return 0;
}

}  // namespace

void add_reindex(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "reindex", "ckpt reindex net.ckpt\n  ckpt reindex --dry-run net.ckpt",
                                    "Bring the index of a native file up to date after h5py or another HDF5 program "
                                    "edited it. The file itself is replaced, atomically, unless -o names another.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "native checkpoint (.ckpt)").required().type_name("");
  command.add_option("-o,--output", options->output, "write a new file instead").type_name("OUT");
  command.add_flag("--in-place", options->in_place, "replace FILE; this is the default");
  command.add_flag("--follow", options->follow, "change the file behind a symbolic link");
  command.add_flag("-n,--dry-run", options->dry_run, "say what changed, write nothing");
  command.add_flag("-f,--force", options->force,
                   "overwrite OUT; without -o also a read-only file or one with hard links");
  add_read_options(command, *options);
  command.remove_options({"--lenient", "--foreign-objects"});
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
