// ckpt join: the shards behind an index as one file.

#include "libckpt/format/format.h"
#include "libcore/base/error.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

struct Options : EditOptions {
  std::string input;
  std::string format;
};

Edit take(const ckpt::Checkpoint& checkpoint, const std::string& at) {
  Edit edit;
  edit.checkpoint = checkpoint;
  edit.checkpoint.root = ckpt::value_at(checkpoint.root, at);
  std::size_t tensors = ckpt::list_entries(edit.checkpoint.root).size();
  edit.summary = count_of(tensors, "tensor") + " joined";
  edit.json = [tensors](ckpt::JsonWriter& json) { json.key("tensors").value(static_cast<std::uint64_t>(tensors)); };
  return edit;
}

int run(Context& context, const Options& options) {
  fs::path target = options.output;
  const ckpt::Format* format =
      options.format.empty() ? ckpt::find_format_for(target) : ckpt::find_format(options.format);
  if (format == nullptr || format->write == nullptr) {
    throw Error(ErrorCode::usage,
                "its name does not say a format; use an extension such as .safetensors, .ckpt or .pth")
        .add_context(target.string());
  }
  Job job{parse_address(options.input), target, std::string(format->name)};
  check_target(options, job);
  ckpt::JsonWriter json(2);
  int code = run_job(context, options, {"join", ""}, job, take, json);
  if (options.json) context.out.print(json.text() + "\n");
  return code;
}

}  // namespace

void add_join(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "join", "ckpt join net/ -o net.safetensors\n  ckpt join net/model.safetensors.index.json -o net.pth",
      "Merge a sharded model into one file: the shards that the index names, and no other "
      "files of the folder.");
  auto options = std::make_shared<Options>();
  command.add_option("DIR", options->input, "folder with an index, or the index itself").required().type_name("");
  command.add_option("-o,--output", options->output, "output; its extension says the format")
      .required()
      .type_name("FILE");
  command.add_option("--format", options->format, "format of the output, whatever its name").type_name("NAME");
  add_write_options(command, *options);
  command.remove_options({"--in-place", "--follow"});
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
