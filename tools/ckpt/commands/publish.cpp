// ckpt publish: what of a training file others need, as a file to hand out.

#include "libckpt/transform/publish.h"

#include "libckpt/format/format.h"
#include "libckpt/format/in_place.h"
#include "libckpt/hint.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/draft.h"
#include "libckpt/objects.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/edit/new_folder.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

constexpr std::size_t kHashDigits = 8;
constexpr std::size_t kMaxListed = 8;
const std::string kUnknownHash = "HASHHASH";  ///< where the digits are not known yet

struct Options : EditOptions {
  std::string input;
  std::string to;
  bool cast_norms = false;  ///< of older command lines; that is the default now
  bool keep_norms = false;
  bool keep_wrappers = false;
  bool allow_nan = false;
  bool hash_name = false;
  ckpt::PublishOptions publish;
};

/// Where the result goes; `hashed` until the digits are known stands for a name without them.
struct Target {
  fs::path path;
  bool hashed = false;
  std::string format;
};

struct Result {
  std::uint64_t size_before = 0;
  std::uint64_t size_after = 0;
  std::string sha256;
  bool published = false;
};

fs::path default_name(const fs::path& source, bool sharded) {
  std::string name = derived_name(source, "published").filename().string();
  if (sharded) return source.parent_path() / fs::path(name).replace_extension(".safetensors");
  return source.parent_path() / name.replace(name.rfind(".published"), 10, "");
}

Target target_of(const Options& options, const Address& source, const ckpt::Checkpoint& checkpoint) {
  bool sharded = options.max_shard_size > 0;
  bool folder = options.output.ends_with('/') || fs::is_directory(options.output);
  Target target;
  target.hashed = !sharded && (options.output.empty() || folder || options.hash_name);
  if (options.output.empty() || folder) {
    fs::path name = default_name(source.path, sharded);
    target.path = folder ? fs::path(options.output) / name.filename() : name;
  } else {
    target.path = options.output;
  }
  core::with_context(target.path.string(), [&] { ckpt::refuse_packed(checkpoint, target.path); });
  const ckpt::Format* by_name = ckpt::find_format_for(target.path);
  const ckpt::Format* same = ckpt::find_format(checkpoint.format);
  bool keeps = same != nullptr && same->write != nullptr && target.path.extension() == source.path.extension();
  if (keeps) {
    target.format = checkpoint.format;
  } else if (by_name != nullptr && by_name->write != nullptr) {
    target.format = by_name->name;
  } else {
    throw Error(ErrorCode::usage,
                "cannot tell a format from this name; name an output with -o NAME.safetensors or NAME.pth")
        .add_context(target.path.string());
  }
  return target;
}

fs::path hashed_name(const fs::path& path, const std::string& sha256) {
  return path.parent_path() / (path.stem().string() + "-" + sha256.substr(0, kHashDigits) + path.extension().string());
}

ckpt::SaveOptions publish_save(const Options& options, const Target& target, ckpt::Report& report) {
  ckpt::SaveOptions save = save_options(options);
  save.format = target.format;
  save.report = &report;
  return save;
}

void save_shards(const Options& options, const Target& target, const ckpt::Checkpoint& checkpoint, Result& result,
                 ckpt::Report& report) {
  ProgressBar bar(core::printable(target.path.filename().string()), !options.quiet);
  ckpt::SaveOptions save = publish_save(options, target, report);
  save.progress = bar.hook();
  ckpt::save(checkpoint, target.path, save);
  result.size_after = report.bytes_written;
}

/// The same error about `shown` where it was about `draft`, whose hidden name says nothing to anybody.
ckpt::HintedError about(const Error& error, const fs::path& draft, const fs::path& shown) {
  ckpt::HintedError out(error.code(), error.message(), ckpt::hint_of(error));
  for (auto at = error.context().rbegin(); at != error.context().rend(); ++at) {
    out.add_context(*at == draft ? shown.string() : *at);
  }
  return out;
}

void save_draft(const Options& options, const Target& target, const fs::path& draft, const ckpt::Checkpoint& checkpoint,
                ckpt::Report& report) {
  ProgressBar bar(core::printable(target.path.filename().string()), !options.quiet);
  ckpt::SaveOptions save = publish_save(options, target, report);
  save.durable = false;  // the draft becomes durable when it is moved
  save.progress = bar.hook();
  ckpt::save(checkpoint, draft, save);
}

/// Saves and hashes a draft, so that whatever can fail has done so when the file gets its name.
void save_file(const Options& options, Target& target, const ckpt::Checkpoint& checkpoint, Result& result,
               ckpt::Report& report) {
  fs::path shown = target.hashed ? hashed_name(target.path, kUnknownHash) : target.path;
  ckpt::Draft draft(shown);
  try {
    save_draft(options, target, draft.path(), checkpoint, report);
    result.sha256 = ckpt::sha256_hex(*ckpt::open_file(draft.path()));
  } catch (const Error& error) {
    throw about(error, draft.path(), shown);
  }
  result.size_after = fs::file_size(draft.path());
  if (target.hashed) target.path = hashed_name(target.path, result.sha256);
  draft.move_to(target.path, {.overwrite = options.force});
}

void write_out(const Options& options, Target& target, const ckpt::Checkpoint& checkpoint, Result& result,
               ckpt::Report& report) {
  if (options.max_shard_size > 0) {
    save_shards(options, target, checkpoint, result, report);
  } else {
    save_file(options, target, checkpoint, result, report);
  }
}

std::string first_names(const std::vector<std::string>& names) {
  std::string list;
  for (std::size_t i = 0; i < std::min(names.size(), kMaxListed); ++i) {
    list += (list.empty() ? "" : ", ") + core::quote(names[i]);
  }
  return list + (names.size() > kMaxListed ? ", ..." : "");
}

/// What keeps the file from being published, "" for nothing.
std::string objection(const ckpt::NonFinite& found) {
  std::string text;
  if (!found.nan.empty()) text = count_of(found.nan.size(), "tensor") + " with NaN: " + first_names(found.nan);
  if (!found.overflowed.empty()) {
    text += (text.empty() ? "" : "; ") + count_of(found.overflowed.size(), "tensor") +
            " with values too large for the new type: " + first_names(found.overflowed);
  }
  if (!found.infinite.empty()) {
    text += (text.empty() ? "" : "; ") + count_of(found.infinite.size(), "tensor") +
            " with infinities: " + first_names(found.infinite);
  }
  return text;
}

void print_plan(Context& context, const ckpt::Publication& publication) {
  using Align = Table::Align;
  Table table({{"part", Align::left}, {"tensors", Align::right}, {"size", Align::right}, {"fate", Align::left}});
  for (const ckpt::PublishPart& part : publication.parts) {
    table.add_row(
        {core::printable(part.name), core::format_count(part.tensors), core::format_size(part.bytes), part.fate});
  }
  table.print(context.out);
  for (const std::string& step : publication.steps) context.out.print("  " + core::printable(step) + "\n");
}

void print_result(Context& context, const Options& options, const Target& target, const ckpt::Publication& publication,
                  const Result& result) {
  std::string name = core::printable(target.path.string());
  if (options.dry_run && target.hashed) name = core::printable(hashed_name(target.path, kUnknownHash).string());
  std::string line = name + ": " + count_of(publication.tensors, "tensor") + ", " +
                     count_and_size(publication.elements) + " elements, " + core::format_size(result.size_before) +
                     " -> " + core::format_size(options.dry_run ? publication.bytes_after : result.size_after);
  if (!options.dry_run) line += " written as " + std::string(ckpt::find_format(target.format)->title);
  if (!result.sha256.empty()) line += ", sha256 " + result.sha256;
  context.out.print(line + (options.dry_run ? ", nothing written (dry run)\n" : "\n"));
}

void write_names(ckpt::JsonWriter& json, const char* key, const std::vector<std::string>& names) {
  json.key(key).begin_array();
  for (const std::string& name : names) json.value(name);
  json.end_array();
}

void print_json(Context& context, const Options& options, const Address& source, const Target& target,
                const ckpt::Publication& publication, const ckpt::NonFinite& found, const Result& result,
                const ckpt::Report& report) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("command").value("publish");
  json.key("input").value(source.shown());
  json.key("output").value(target.path.string());
  json.key("dry_run").value(options.dry_run);
  json.key("published").value(result.published);
  json.key("source").value(publication.source);
  json.key("moving_average").value(publication.is_average);
  json.key("parts").begin_array();
  for (const ckpt::PublishPart& part : publication.parts) {
    json.begin_object();
    json.key("name").value(part.name).key("tensors").value(part.tensors);
    json.key("bytes").value(part.bytes).key("fate").value(part.fate);
    json.end_object();
  }
  json.end_array();
  write_names(json, "steps", publication.steps);
  json.key("tensors").value(publication.tensors);
  json.key("elements").value(publication.elements);
  json.key("file_bytes_before").value(result.size_before);
  json.key("file_bytes_after").value(result.size_after);
  json.key("tensor_bytes_before").value(publication.bytes_before);
  json.key("tensor_bytes_after").value(publication.bytes_after);
  if (!result.sha256.empty()) json.key("sha256").value(result.sha256);
  write_names(json, "nan", found.nan);
  write_names(json, "overflowed", found.overflowed);
  write_names(json, "infinite", found.infinite);
  write_report(json, report);
  json.end_object();
  context.out.print(json.text() + "\n");
}

std::uint64_t file_size(const ckpt::Checkpoint& checkpoint, const ckpt::Publication& publication) {
  std::error_code error;
  std::uint64_t size = fs::file_size(checkpoint.path, error);
  return error || size < publication.bytes_before ? publication.bytes_before : size;  // an index is not the model
}

ckpt::PublishOptions publish_options(const Options& options, const Address& source) {
  ckpt::PublishOptions publish = options.publish;
  publish.at = source.at;
  publish.keep_norms = options.keep_norms;
  publish.strip_wrappers = !options.keep_wrappers;
  if (!options.to.empty()) publish.to = core::parse_dtype(options.to);
  return publish;
}

ckpt::NonFinite look_for_nan(const Options& options, const Address& source, const ckpt::Publication& publication) {
  ProgressBar bar("looking for NaN in " + core::printable(source.path.filename().string()), !options.quiet);
  return core::with_context(source.shown(), [&] { return ckpt::find_non_finite(publication, bar.hook()); });
}

int run(Context& context, const Options& options) {
  Address source = parse_address(options.input);
  ckpt::Report report;
  ckpt::Checkpoint checkpoint = ckpt::open(source.path, options.look(report));
  Target target = target_of(options, source, checkpoint);
  if (!target.hashed) check_target(options, {source, target.path, ""});
  NewFolder folder(options.output.ends_with('/') && !options.dry_run ? target.path.parent_path() : fs::path());
  ckpt::Publication publication =
      core::with_context(source.shown(), [&] { return ckpt::publish(checkpoint, publish_options(options, source)); });
  ckpt::narrow_report(report, publication.checkpoint.root);
  if (!options.json && !options.quiet) print_plan(context, publication);
  ckpt::NonFinite found = look_for_nan(options, source, publication);
  std::string refusal = objection(found);
  Result result;
  result.size_before = file_size(checkpoint, publication);
  bool allowed = refusal.empty() || options.allow_nan;
  if (allowed && !refusal.empty()) report.warnings.push_back(refusal);
  if (allowed && !options.dry_run) {
    write_out(options, target, publication.checkpoint, result, report);
    result.published = true;
  }
  say_report(options, source.path, report);
  if (options.json) print_json(context, options, source, target, publication, found, result, report);
  if (!allowed) {
    context.out.flush();
    print_error_line("ckpt: " + core::printable(source.shown()) + ": not published, " + refusal +
                     "; --allow-nan publishes it anyway");
    return kNo;
  }
  if (!options.json && !options.quiet) print_result(context, options, target, publication, result);
  return kDone;
}

}  // namespace

void add_publish(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "publish",
      "ckpt publish last.pth                # writes last-1a2b3c4d.pth\n  ckpt publish --to bf16 last.pth -o "
      "model.safetensors",
      "Make the file to share with others: the moving average where there is one, as a plain state dict on the CPU, "
      "without "
      "wrappers, optimizer, schedulers and old storages. Weights with NaN or infinities are refused.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->input, "checkpoint; FILE::path names the state dict").required().type_name("");
  command
      .add_option("-o,--output", options->output,
                  "output (default, also in a folder: NAME-HASH8.EXT with the first digits of its SHA-256; not when "
                  "split)")
      .type_name("OUT");
  command.add_option("--ema", options->publish.ema, "moving average: auto, off, or the key of it (default: auto)")
      .type_name("WHICH");
  command.add_option("--to", options->to, "change the type of all floats, as model.to(dtype) does: bf16, f16, f32, ...")
      .type_name("DTYPE");
  command.add_option("--keep", options->publish.keep.include, "tensors that keep their type; may be repeated")
      .type_name("SELECTOR")
      .one_value_each();
  command.add_flag("--keep-norms", options->keep_norms, "normalization layers keep their type");
  command.add_flag("--cast-norms", options->cast_norms, "").hidden();
  command.add_flag("--keep-wrappers", options->keep_wrappers, "leave prefixes such as 'module.' on");
  command.add_flag("--allow-nan", options->allow_nan, "publish weights with NaN or infinities");
  command.add_flag("--hash-name", options->hash_name, "put the digits into the name given with -o, too");
  add_write_options(command, *options);
  command.remove_options({"--in-place", "--follow"});
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
