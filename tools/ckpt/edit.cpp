#include "tools/ckpt/edit.h"

#include <set>
#include <unordered_set>

#include "libckpt/format/folder.h"
#include "libckpt/format/format.h"
#include "libckpt/format/in_place.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/listing.h"
#include "tools/ckpt/progress.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// A folder stands for the index in it.
fs::path in_place_target(const Address& source) {
  return ckpt::resolve_folder(source.path);
}

fs::path target_of(const EditOptions& options, const EditCommand& command, const Address& source) {
  bool piped = source.is_standard_input();
  if (piped && (options.in_place || options.output.empty())) {
    throw Error(ErrorCode::usage, "needs -o OUT to say where the result goes").add_context(source.shown());
  }
  if (options.in_place) return in_place_target(source);
  if (options.output.empty()) return derived_name(source.path, command.tag);
  bool folder = is_folder(options.output) || options.output.ends_with('/');
  if (folder && piped)
    throw Error(ErrorCode::usage, "is a folder; name a file for what comes from standard input")
        .add_context(options.output);
  if (folder)
    return fs::path(options.output) / (is_folder(source.path) ? single_name(source.path) : source.path).filename();
  if (options.files.size() > 1) {
    throw Error(ErrorCode::usage, "several files need a folder to go to; create it, or name one with a final '/'")
        .add_context(options.output);
  }
  return options.output;
}

/// What PyTorch wrote in other forms is written as PyTorch writes it now.
constexpr std::string_view kTorch = "torch-zip";

bool is_only_read(const ckpt::Checkpoint& checkpoint) {
  const ckpt::Format* known = ckpt::find_format(checkpoint.format);
  return known != nullptr && known->write == nullptr;
}

bool is_old_torch(const ckpt::Checkpoint& checkpoint) {
  return is_only_read(checkpoint) && (checkpoint.format.starts_with("torch") || checkpoint.format == "dcp");
}

/// A new extension asks for another format; the same one keeps the format, whatever the extension usually means (a
/// .ckpt may well be a PyTorch file).
std::string format_of(const EditOptions& options, const Job& job, const ckpt::Checkpoint& checkpoint) {
  bool same =
      options.in_place || job.source.is_standard_input() || job.target.extension() == job.source.path.extension();
  if (is_old_torch(checkpoint)) return same || ckpt::find_format_for(job.target) == nullptr ? std::string(kTorch) : "";
  return same && !is_only_read(checkpoint) ? checkpoint.format : "";
}

/// A file of a form that is only read becomes a PyTorch zip file of the same name; a model of several files stays.
void check_in_place(const EditOptions& options, const Job& job, const ckpt::Checkpoint& checkpoint) {
  bool several = checkpoint.format == "dcp" || checkpoint.format == "torch-sharded";
  if (!options.in_place || !several) return;
  throw Error(ErrorCode::unsupported, "a " + std::string(ckpt::find_format(checkpoint.format)->title) +
                                          " is only read, not edited in place; name an output with -o")
      .add_context(job.source.path.string());
}

void report_new_form(const ckpt::Checkpoint& checkpoint, const std::string& format, ckpt::Report& report) {
  if (!is_old_torch(checkpoint) || format != kTorch) return;
  report.warnings.push_back("a " + std::string(ckpt::find_format(checkpoint.format)->title) +
                            " is only read: the result is a PyTorch zip checkpoint");
}

/// A distributed checkpoint names each tensor by its dotted path and keeps everything else beside them as objects. So a
/// format of tensors alone gets all of the tensors under their names; the objects are listed as left out.
bool leaves_out_objects(const ckpt::Checkpoint& checkpoint, const Job& job, const ckpt::SaveOptions& save) {
  const ckpt::Format* format = save.format.empty() ? ckpt::find_format_for(job.target) : ckpt::find_format(save.format);
  if (checkpoint.format != "dcp" || format == nullptr) return false;
  std::unordered_set<std::string> tensors;
  for (const ckpt::NamedEntry& tensor : ckpt::list_entries(checkpoint.root)) tensors.insert(tensor.name);
  for (const ckpt::Obstacle& obstacle : ckpt::find_obstacles(*format, checkpoint, save)) {
    if (tensors.contains(obstacle.subject)) return false;
  }
  return true;
}

void write_json(ckpt::JsonWriter& json, const EditOptions& options, const EditCommand& command, const Job& job,
                const Edit& edit, const ckpt::Report& report) {
  json.begin_object();
  json.key("command").value(command.name);
  json.key("input").value(job.source.shown());
  json.key("output").value(job.target.string());
  json.key("dry_run").value(options.dry_run);
  json.key("changed").value(edit.changed);
  json.key("bytes_written").value(report.bytes_written);
  if (edit.json) edit.json(json);
  write_report(json, report);
  json.end_object();
}

void say_closing(Context& context, const EditOptions& options, const Job& job, const Edit& edit,
                 const ckpt::Report& report) {
  std::string line = core::printable(job.target.string()) + ": " + edit.summary;
  if (options.dry_run) {
    for (const std::string& step : edit.steps) context.out.print("  " + step + "\n");
    context.out.print(line + ", nothing written (dry run)\n");
    return;
  }
  if (options.in_place && !edit.changed) {
    context.out.print(line + ", file left as it is\n");
    return;
  }
  context.out.print(line + ", " + core::format_size(report.bytes_written) + " written\n");
}

void save_edit(const EditOptions& options, const Job& job, const Edit& edit, ckpt::Report& report) {
  ProgressBar bar(core::printable(job.target.filename().string()), !options.quiet);
  ckpt::SaveOptions save = save_options(options);
  save.format = job.format.empty() ? format_of(options, job, edit.checkpoint) : job.format;
  if (job.format.empty()) report_new_form(edit.checkpoint, save.format, report);
  if (leaves_out_objects(edit.checkpoint, job, save)) save.drop_inexpressible = true;
  save.progress = bar.hook();
  save.report = &report;
  ckpt::save(edit.checkpoint, job.target, save);
}

/// What a dry run can know about the save: whether the target format can hold everything, and whether an index lists
/// all that an edit in place would write.
void check_expressible(const EditOptions& options, const Job& job, const Edit& edit, ckpt::Report& report) {
  std::string name = job.format.empty() ? format_of(options, job, edit.checkpoint) : job.format;
  const ckpt::Format* format = name.empty() ? ckpt::find_format_for(job.target) : ckpt::find_format(name);
  if (format == nullptr) return;
  if (edit.changed || !options.in_place) ckpt::check_in_place(edit.checkpoint, job.target);
  ckpt::Checkpoint written = ckpt::retype(edit.checkpoint, options.retype);
  ckpt::SaveOptions save = save_options(options);
  save.format = name;
  bool drops = options.drop || leaves_out_objects(edit.checkpoint, job, save);
  for (const ckpt::Obstacle& obstacle : ckpt::find_obstacles(*format, written, save)) {
    std::string text = core::quote(obstacle.subject) + " (" + obstacle.reason + ")";
    if (!drops) {
      throw Error(ErrorCode::unsupported, std::string(format->title) + " cannot hold " + text).add_context(job.target);
    }
    report.dropped.push_back(text);
  }
}

}  // namespace

ckpt::SaveOptions save_options(const EditOptions& options) {
  ckpt::SaveOptions save;
  save.overwrite = options.in_place || options.force;
  save.codec = options.codec;
  save.parity = options.parity;
  save.max_shard_size = options.max_shard_size;
  save.shards = options.shards;
  save.shard_prefixes = options.shard_prefixes;
  save.drop_inexpressible = options.drop;
  save.retype = options.retype;
  save.max_memory = options.max_memory;
  save.threads = options.threads;
  return save;
}

void check_target(const EditOptions& options, const Job& job) {
  std::error_code ignored;
  if (options.in_place) return;
  if (!job.named && fs::is_symlink(job.target, ignored)) {
    throw Error(ErrorCode::io, "is a symbolic link; name the file itself with -o, or remove the link")
        .add_context(job.target);
  }
  if (!fs::exists(job.target, ignored)) return;
  std::string name = job.target.string();
  if (same_file(job.source.path, job.target)) {
    throw Error(ErrorCode::usage, "is both input and output; use --in-place to replace it").add_context(name);
  }
  if (is_folder(job.target)) throw Error(ErrorCode::io, "is a folder; name a file").add_context(name);
  if (!options.force) throw Error(ErrorCode::io, "exists already; use -f to overwrite it").add_context(name);
}

void run_job(Context& context, const EditOptions& options, const EditCommand& command, const Job& job,
             const EditFunction& edit, ckpt::JsonWriter& json) {
  ckpt::Report report;
  ckpt::Checkpoint checkpoint = ckpt::open(job.source.path, options.open(report));
  check_in_place(options, job, checkpoint);
  Edit done = core::with_context(job.source.path.string(), [&] { return edit(checkpoint, job.source.at); });
  report.warnings.insert(report.warnings.end(), done.warnings.begin(), done.warnings.end());
  bool writes = !options.dry_run && (done.changed || !options.in_place);
  if (writes) save_edit(options, job, done, report);
  if (options.dry_run) check_expressible(options, job, done, report);
  say_report(options, job.source.path, report);
  if (options.json) write_json(json, options, command, job, done, report);
  if (!options.json && !options.quiet) say_closing(context, options, job, done, report);
}

int run_edits(Context& context, const EditOptions& options, const EditCommand& command, const EditFunction& edit) {
  if (options.in_place && !options.output.empty()) {
    throw Error(ErrorCode::usage, "-o and --in-place contradict each other");
  }
  std::vector<Job> jobs;
  std::set<fs::path> targets;
  for (const std::string& file : options.files) {
    Address source = parse_address(file);
    fs::path target = target_of(options, command, source);
    if (!targets.insert(target).second) {
      throw Error(ErrorCode::usage, "two inputs would be written to it").add_context(target.string());
    }
    bool named = options.in_place || target == fs::path(options.output);
    jobs.push_back({std::move(source), std::move(target), "", named});
    check_target(options, jobs.back());
  }
  ckpt::JsonWriter json(2);
  if (jobs.size() > 1) json.begin_array();
  for (const Job& job : jobs) {
    run_job(context, options, command, job, edit, json);
    if (!options.json) context.out.flush();
  }
  if (jobs.size() > 1) json.end_array();
  if (options.json) context.out.print(json.text() + "\n");
  return 0;
}

}  // namespace cli
