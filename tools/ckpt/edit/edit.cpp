#include "tools/ckpt/edit/edit.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "libckpt/format/folder.h"
#include "libckpt/format/format.h"
#include "libckpt/format/in_place.h"
#include "libckpt/io/edit_journal.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/edit/carried_objects.h"
#include "tools/ckpt/edit/needed_by_others.h"
#include "tools/ckpt/edit/new_folder.h"
#include "tools/ckpt/edit/replaced_file.h"
#include "tools/ckpt/edit/standard_output.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

void refuse_remote(const fs::path& target) {
  if (!ckpt::is_remote_name(target)) return;
  throw Error(ErrorCode::usage, "files on other machines are only read; name a file here with -o")
      .add_context(target.string());
}

/// A folder stands for the index in it.
fs::path in_place_target(const Address& source) {
  refuse_remote(source.path);
  return ckpt::resolve_folder(source.path);
}

bool is_one_name(const fs::path& source) {
  return !is_folder(source) && !ckpt::is_remote_name(source);
}

/// The name with the extension that the command's outputs have.
fs::path with_extension(fs::path name, const EditCommand& command) {
  return command.extension.empty() ? name : name.replace_extension(command.extension);
}

/// A name whose format is a folder names that folder, not one to put a file into.
bool is_checkpoint_folder(const fs::path& target) {
  const ckpt::Format* format = ckpt::find_format_for(target);
  return format != nullptr && format->is_folder;
}

fs::path target_of(const EditOptions& options, const EditCommand& command, const Address& source) {
  bool piped = source.is_standard_input();
  if (piped && (options.in_place || options.output.empty())) {
    throw Error(ErrorCode::usage, "needs -o OUT to say where the result goes").add_context(source.shown());
  }
  if (options.in_place) return in_place_target(source);
  if (options.output.empty()) return with_extension(derived_name(source.path, command.tag), command);
  const std::string bare = without_end_slashes(options.output);
  bool whole = is_checkpoint_folder(bare);
  bool folder = (is_folder(options.output) || options.output.ends_with('/')) && !whole;
  if (folder && piped)
    throw Error(ErrorCode::usage, "is a folder; name a file for what comes from standard input")
        .add_context(options.output);
  if (folder) {
    fs::path name = (is_one_name(source.path) ? source.path : single_name(source.path)).filename();
    return fs::path(options.output) / with_extension(name, command);
  }
  if (options.files.size() > 1) {
    throw Error(ErrorCode::usage, whole ? "is the folder of one checkpoint; several files need one of another name"
                                        : "several files need an output folder; create it, or end its name with '/'")
        .add_context(options.output);
  }
  return whole ? bare : options.output;
}

bool is_only_read(const ckpt::Checkpoint& checkpoint) {
  const ckpt::Format* known = ckpt::find_format(checkpoint.format);
  return known != nullptr && known->write == nullptr;
}

/// What PyTorch wrote in other forms is written as PyTorch writes it now. "" for what is written in its own form, or in
/// none that suggests itself.
std::string new_form_of(const ckpt::Checkpoint& checkpoint) {
  const ckpt::Format* known = ckpt::find_format(checkpoint.format);
  return known == nullptr ? "" : std::string(known->writes_as);
}

/// A new extension asks for another format; the same one keeps the format, whatever the extension usually means (a
/// .ckpt may well be a PyTorch file).
std::string format_of(const EditOptions& options, const Job& job, const ckpt::Checkpoint& checkpoint) {
  bool same = options.in_place || job.source.is_standard_input() || is_standard_output(job.target) ||
              job.target.extension() == job.source.path.extension();
  std::string other = new_form_of(checkpoint);
  const ckpt::Format* named = ckpt::find_format_for(job.target);
  bool stays = options.in_place || (named != nullptr && named->name == checkpoint.format);
  if (stays && !is_only_read(checkpoint)) return checkpoint.format;
  if (!other.empty()) return same || named == nullptr ? other : "";
  return same && !is_only_read(checkpoint) ? checkpoint.format : "";
}

/// A file of a form that is only read becomes a PyTorch zip file of the same name, where that holds all that is in it;
/// others, and a model of several files, stay.
void check_in_place(const EditOptions& options, const Job& job, const ckpt::Checkpoint& checkpoint) {
  const ckpt::Format* format = ckpt::find_format(checkpoint.format);
  bool stays = format != nullptr && (format->write == nullptr || !format->edits_in_place) &&
               (format->several_files || format->writes_as.empty());
  if (!options.in_place || !stays) return;
  throw Error(ErrorCode::unsupported,
              "a " + std::string(format->title) + " can be read but not edited in place; name an output with -o")
      .add_context(job.source.path.string());
}

/// The format that a job writes, null where its name says none.
const ckpt::Format* format_written(const EditOptions& options, const Job& job, const ckpt::Checkpoint& checkpoint) {
  std::string name = job.format.empty() ? format_of(options, job, checkpoint) : job.format;
  return name.empty() ? ckpt::find_format_for(job.target) : ckpt::find_format(name);
}

/// A file of one tensor without a name (.npy) becomes a state dict with one key, in formats that name their tensors.
void name_lone_tensor(const EditOptions& options, const Job& job, ckpt::Checkpoint& checkpoint) {
  const ckpt::Format* format = format_written(options, job, checkpoint);
  bool fits = format == nullptr || format->holds_lone_tensor;
  if (!checkpoint.root.is(ckpt::Value::Kind::tensor) || fits) return;
  ckpt::Dict dict;
  std::string name = job.source.is_standard_input() ? "tensor" : job.source.path.stem().string();
  dict.items.emplace_back(ckpt::Value::text(name), checkpoint.root);
  checkpoint.root = ckpt::Value::dict(std::move(dict));
}

void report_new_form(const ckpt::Checkpoint& checkpoint, const std::string& format, ckpt::Report& report) {
  if (format.empty() || format != new_form_of(checkpoint)) return;
  const ckpt::Format& from = *ckpt::find_format(checkpoint.format);
  std::string result = " the result is a " + std::string(ckpt::find_format(format)->title);
  report.warnings.push_back(is_only_read(checkpoint)
                                ? "a " + std::string(from.title) + " can only be read, so" + result
                                : "the name says no format, so" + result + "; name OUT" +
                                      std::string(from.extensions.front()) + " for a " + std::string(from.title));
}

/// Some formats name each tensor by its dotted path and keep everything else beside them as objects. So a format of
/// tensors alone gets all of the tensors under their names; the objects are listed as left out.
bool leaves_out_objects(const ckpt::Checkpoint& checkpoint, const Job& job, const ckpt::SaveOptions& save) {
  const ckpt::Format* format = save.format.empty() ? ckpt::find_format_for(job.target) : ckpt::find_format(save.format);
  const ckpt::Format* from = ckpt::find_format(checkpoint.format);
  if (from == nullptr || !from->objects_beside || format == nullptr) return false;
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
  json.key("rung").value(report.rung);
  json.key("part").value(report.part);
  if (edit.json) edit.json(json);
  write_report(json, report);
  json.end_object();
}

void say_closing(Context& context, const EditOptions& options, const Job& job, const Edit& edit,
                 const std::string& written) {
  bool piped = is_standard_output(job.target);
  auto say = [&](const std::string& line) { piped ? print_error_line(line) : context.out.print(line + "\n"); };
  std::string line = piped ? "standard output: " : core::printable(job.target.string()) + ": ";
  if (!edit.nothing.empty()) return say(line + edit.nothing + "; nothing written");
  line += edit.summary;
  if (options.dry_run) {
    for (const std::string& step : edit.steps) say("  " + step);
    return say(line + (written.empty() ? "" : ", " + written) + ", nothing written (dry run)");
  }
  if (options.in_place && !edit.changed) return say(line + ", file left as it is");
  say(line + ", " + written);
}

/// What of a file is written by an edit in place; `verb` says how: "appended".
std::string edited_text(std::string_view part, std::string_view verb, std::uint64_t bytes) {
  if (bytes == 0) return std::string(part) + " unchanged";
  return std::string(part) + " " + std::string(verb) + ", " + core::format_size(bytes);
}

/// Returns what was written, for the closing line.
std::string save_edit(Context& context, const EditOptions& options, const Job& job, const Edit& edit,
                      ckpt::Report& report) {
  ckpt::SaveOptions save = save_options(options);
  save.format = job.format.empty() ? format_of(options, job, edit.checkpoint) : job.format;
  if (job.format.empty()) report_new_form(edit.checkpoint, save.format, report);
  if (leaves_out_objects(edit.checkpoint, job, save)) save.drop_inexpressible = true;
  save.report = &report;
  std::string title = save_to(context, options, edit.checkpoint, job.target, save);
  if (report.rung == "in place") return edited_text(report.part, "rewritten in place", report.bytes_written);
  if (report.rung == "append") return edited_text(report.part, "appended", report.bytes_written);
  return written_text(report.bytes_written, title);
}

/// What a dry run can know about the save: whether the target format can hold everything, whether an index lists all
/// that an edit in place would write, and, which is returned for the closing line, what of the file would be written
/// where not all of it is.
std::string check_expressible(const EditOptions& options, const Job& job, const Edit& edit, ckpt::Report& report) {
  const ckpt::Format* format = format_written(options, job, edit.checkpoint);
  if (format == nullptr) return "";
  if (edit.changed || !options.in_place) ckpt::check_in_place(edit.checkpoint, job.target);
  ckpt::Checkpoint written = ckpt::retype(edit.checkpoint, options.retype);
  ckpt::SaveOptions save = save_options(options);
  save.format = std::string(format->name);
  bool drops = options.drop || leaves_out_objects(edit.checkpoint, job, save);
  for (const ckpt::Obstacle& obstacle : ckpt::find_obstacles(*format, written, save)) {
    std::string text = describe(obstacle);
    if (!drops) {
      throw Error(ErrorCode::unsupported, std::string(format->title) + " cannot hold " + text).add_context(job.target);
    }
    report.dropped.push_back(text);
  }
  if (!edit.changed) return "";
  std::optional<ckpt::InPlaceEdit> in_place = ckpt::plan_in_place(written, job.target, save);
  if (!in_place) return "";
  bool appends = in_place->appends();
  report.rung = appends ? "append" : "in place";
  report.part = in_place->part;
  return edited_text(report.part, appends ? "to be appended" : "to be rewritten in place", in_place->length());
}

CarryPlan carry_plan(const EditOptions& options, const Job& job, const ckpt::Checkpoint& checkpoint) {
  return {format_written(options, job, checkpoint), job.source, job.target, options.drop, options.foreign_objects};
}

/// Standard output takes one file, and nothing else may be printed there.
void check_stream(const EditOptions& options) {
  if (options.json) {
    throw Error(ErrorCode::usage, "--json and '-o -' contradict each other: both write to standard output");
  }
  if (options.max_shard_size > 0 || options.shards > 0 || !options.shard_prefixes.empty()) {
    throw Error(ErrorCode::usage, "takes one file, not several; name a folder with -o").add_context("standard output");
  }
  check_standard_output();
}

}  // namespace

ckpt::SaveOptions save_options(const EditOptions& options) {
  ckpt::SaveOptions save;
  save.overwrite = options.in_place || options.force;
  save.in_place = options.in_place;
  save.codec = options.codec;
  save.parity = options.parity;
  save.slack = options.slack;
  save.max_shard_size = options.max_shard_size;
  save.shards = options.shards;
  save.shard_dim = options.shard_dim;
  save.shard_prefixes = options.shard_prefixes;
  save.drop_inexpressible = options.drop;
  save.retype = options.retype;
  save.max_memory = options.max_memory;
  save.threads = options.threads;
  save.io = options.io;
  return save;
}

std::string save_to(Context& context, const EditOptions& options, const ckpt::Checkpoint& checkpoint,
                    const fs::path& target, ckpt::SaveOptions save) {
  bool piped = is_standard_output(target);
  const ckpt::Format* asked = ckpt::find_format(save.format);
  if (piped && asked != nullptr && !asked->one_file_as.empty()) save.format = asked->one_file_as;
  const ckpt::Format* format = save.format.empty() ? ckpt::find_format_for(target) : ckpt::find_format(save.format);
  std::string title(format == nullptr ? ckpt::find_format(checkpoint.format)->title : format->title);
  ProgressBar bar(piped ? "standard output" : core::printable(target.filename().string()), !options.quiet);
  save.progress = bar.hook();
  if (piped) {
    StandardOutputFile file;
    save.durable = false;
    core::with_context("standard output", [&] { ckpt::save(checkpoint, file.path(), save); });
    file.send(context.out);
  } else {
    NewFolder folder(options.output.ends_with('/') ? target.parent_path() : fs::path());
    ckpt::save(checkpoint, target, save);
  }
  return title;
}

std::string written_text(std::uint64_t bytes, const std::string& format_title) {
  return core::format_size(bytes) + " written as " + format_title;
}

void check_target(const EditOptions& options, const Job& job) {
  refuse_remote(job.target);
  std::error_code ignored;
  if (options.in_place) return check_replaced(job.target, {.follow = options.follow, .force = options.force});
  const ckpt::Format* asked = job.format.empty() ? nullptr : ckpt::find_format(job.format);
  if (is_standard_output(job.target) && asked != nullptr && asked->is_folder) {
    throw Error(ErrorCode::usage, "takes one file, and a " + std::string(asked->title) + " is a folder; name it OUT" +
                                      std::string(asked->extensions.front()))
        .add_context("standard output");
  }
  if (is_standard_output(job.target)) return check_stream(options);
  if (!job.named && fs::is_symlink(job.target, ignored)) {
    throw Error(ErrorCode::io, "is a symbolic link; name the file itself with -o, or remove the link")
        .add_context(job.target);
  }
  std::string name = job.target.string();
  if (!job.target.has_filename()) throw Error(ErrorCode::usage, "is a folder; name a file").add_context(name);
  if (!fs::exists(job.target, ignored)) return;
  if (same_file(job.source.path, job.target)) {
    throw Error(ErrorCode::usage, "is both input and output; use --in-place to replace it").add_context(name);
  }
  const ckpt::Format* format = job.format.empty() ? ckpt::find_format_for(job.target) : ckpt::find_format(job.format);
  bool whole = format != nullptr && format->is_folder;
  if (is_folder(job.target) && !whole) throw Error(ErrorCode::io, "is a folder; name a file").add_context(name);
  if (!options.force) throw Error(ErrorCode::io, "exists already; use -f to overwrite it").add_context(name);
}

int run_job(Context& context, const EditOptions& options, const EditCommand& command, const Job& job,
            const EditFunction& edit, ckpt::JsonWriter& json) {
  ckpt::Report report;
  ckpt::OpenOptions open = options.look(report);
  open.foreign_objects |= options.take_modules;
  if (options.in_place && !options.dry_run) ckpt::EditJournal::settle(job.target);
  ckpt::Checkpoint checkpoint = ckpt::open(job.source.path, open);
  check_in_place(options, job, checkpoint);
  if (!options.take_modules) leave_out_objects(checkpoint, carry_plan(options, job, checkpoint), report);
  Edit done = core::with_context(job.source.path.string(), [&] { return edit(checkpoint, job.source.at); });
  name_lone_tensor(options, job, done.checkpoint);
  bool useless = !done.nothing.empty();
  if (!useless) carry_objects(done.checkpoint, carry_plan(options, job, done.checkpoint), report);
  report.warnings.insert(report.warnings.end(), done.warnings.begin(), done.warnings.end());
  bool writes = !options.dry_run && !useless && (done.changed || !options.in_place);
  if (options.in_place && !useless) {
    require_unneeded(job.target, checkpoint, ckpt::retype(done.checkpoint, options.retype));
  }
  std::string written = writes ? save_edit(context, options, job, done, report) : "";
  if (options.dry_run && !useless) written = check_expressible(options, job, done, report);
  say_report(options, job.source.path, report);
  if (options.json) write_json(json, options, command, job, done, report);
  if (!options.json && !options.quiet) say_closing(context, options, job, done, written);
  using Read = std::pair<ckpt::Checkpoint, Edit>;
  if (options.files.size() == 1) context.kept = std::make_shared<Read>(std::move(checkpoint), std::move(done));
  return useless ? kNo : kDone;
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
    bool named = options.in_place || target == fs::path(without_end_slashes(options.output));
    jobs.push_back({std::move(source), std::move(target), "", named});
    check_target(options, jobs.back());
  }
  ckpt::JsonWriter json(2);
  if (jobs.size() > 1) json.begin_array();
  int code = kDone;
  for (const Job& job : jobs) {
    code = std::max(code, run_job(context, options, command, job, edit, json));
    if (!options.json) context.out.flush();
  }
  if (jobs.size() > 1) json.end_array();
  if (options.json) context.out.print(json.text() + "\n");
  return code;
}

}  // namespace cli
