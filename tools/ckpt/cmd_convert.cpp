// ckpt convert: the same checkpoint in another format.

#include "libckpt/format/format.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands.h"
#include "tools/ckpt/edit.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : EditOptions {
  std::string input;
  std::string target;
  std::string format;
};

std::string writable_formats() {
  std::string names;
  for (const ckpt::Format* format : ckpt::formats()) {
    if (format->write != nullptr) names += (names.empty() ? "" : ", ") + std::string(format->name);
  }
  return names;
}

/// Unlike an edit, a conversion to a name that says no format is a mistake, not a copy in the old format.
void check_format(const Options& options, const Job& job) {
  const ckpt::Format* format = options.format.empty() ? nullptr : ckpt::find_format(options.format);
  if (!options.format.empty() && (format == nullptr || format->write == nullptr)) {
    throw Error(ErrorCode::usage,
                "--format " + core::quote(options.format) + " cannot be written; use one of " + writable_formats());
  }
  if (options.in_place || format != nullptr || ckpt::find_format_for(job.target) != nullptr) return;
  throw Error(ErrorCode::usage,
              "its name does not say a format; use an extension such as .ckpt, .pth or "
              ".safetensors, or --format")
      .add_context(job.target.string());
}

Job make_job(const Options& options) {
  if (!options.target.empty() && !options.output.empty()) {
    throw Error(ErrorCode::usage, "the output is named twice, as OUT and with -o");
  }
  std::string named = options.target.empty() ? options.output : options.target;
  if (named.empty() != options.in_place) {
    throw Error(ErrorCode::usage, options.in_place ? "OUT and --in-place contradict each other" : "OUT is missing");
  }
  Address source = parse_address(options.input);
  std::filesystem::path target = options.in_place ? source.path : std::filesystem::path(named);
  std::error_code ignored;
  if (!options.in_place && std::filesystem::is_directory(target, ignored)) {
    throw Error(ErrorCode::io, "is a folder; name a file").add_context(named);
  }
  std::string format = options.format;
  if (format.empty() && !options.in_place) {
    const ckpt::Format* by_name = ckpt::find_format_for(target);
    format = by_name != nullptr ? std::string(by_name->name) : "";
  }
  return {std::move(source), std::move(target), std::move(format)};
}

/// All of the file, or the one dict that was named.
Edit take(const ckpt::Checkpoint& checkpoint, const std::string& at) {
  Edit edit;
  edit.checkpoint = checkpoint;
  edit.checkpoint.root = ckpt::value_at(checkpoint.root, at);
  std::size_t tensors = ckpt::list_entries(edit.checkpoint.root).size();
  edit.summary = count_of(tensors, "tensor") + " from " + checkpoint.format;
  edit.json = [tensors, from = checkpoint.format](ckpt::JsonWriter& json) {
    json.key("tensors").value(static_cast<std::uint64_t>(tensors));
    json.key("from").value(from);
  };
  return edit;
}

int run(Context& context, const Options& options) {
  Job job = make_job(options);
  check_format(options, job);
  check_target(options, job);
  ckpt::JsonWriter json(2);
  run_job(context, options, {"convert", ""}, job, take, json);
  if (options.json) context.out.print(json.text() + "\n");
  return 0;
}

}  // namespace

void add_convert(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "convert", "ckpt convert net.pth net.safetensors",
                                    "Write a checkpoint in another format, named by the extension of OUT or --format.");
  auto options = std::make_shared<Options>();
  command.add_option("IN", options->input, "checkpoint; FILE::path takes only what is there").required().type_name("");
  command.add_option("OUT", options->target, "output; has no default name").type_name("");
  command.add_option("-o,--output", options->output, "the same as OUT").type_name("OUT");
  command.add_option("--format", options->format, "format of the output, whatever its name").type_name("NAME");
  add_write_options(command, *options);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
