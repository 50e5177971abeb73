// ckpt split: one model as several safetensors files behind an index.

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/edit/new_folder.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

constexpr std::string_view kIndex = ".safetensors.index.json";

struct Options : EditOptions {
  std::string input;
};

/// -o names a folder or an index; without it a folder beside the input. Hubs call the model in a folder "model".
fs::path index_path(const Options& options, const Address& source) {
  if (options.in_place) {
    if (options.output.empty() && source.path.string().ends_with(kIndex)) return source.path;
    throw Error(ErrorCode::usage, "--in-place needs an index to split again, and no -o").add_context(source.shown());
  }
  if (options.output.ends_with(kIndex)) return options.output;
  fs::path folder = options.output;
  if (options.output.empty()) {
    folder = source.path.parent_path() / (source.path.filename().stem().string() + "-shards");
    if (source.is_standard_input()) throw Error(ErrorCode::usage, "needs -o DIR").add_context(source.shown());
  }
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !fs::is_directory(folder, ignored)) {
    throw Error(ErrorCode::io, "is a file; name a folder or NAME.safetensors.index.json").add_context(folder.string());
  }
  return folder / ("model" + std::string(kIndex));
}

Edit take(const ckpt::Checkpoint& checkpoint, const std::string& at) {
  Edit edit;
  edit.checkpoint = checkpoint;
  edit.checkpoint.root = ckpt::value_at(checkpoint.root, at);
  std::size_t tensors = ckpt::list_entries(edit.checkpoint.root).size();
  edit.summary = count_of(tensors, "tensor") + " from " + checkpoint.format;
  edit.json = [tensors](ckpt::JsonWriter& json) { json.key("tensors").value(static_cast<std::uint64_t>(tensors)); };
  return edit;
}

int run(Context& context, Options& options) {
  int ways = (options.max_shard_size > 0 || !options.shard_prefixes.empty() ? 1 : 0) + (options.shards > 0 ? 1 : 0);
  if (ways != 1) {
    throw Error(ErrorCode::usage, "say how to split: --max-shard-size SIZE, --shards N, or --prefix P...");
  }
  Address source = parse_address(options.input);
  fs::path target = index_path(options, source);
  Job job{std::move(source), target, "safetensors-sharded"};
  check_target(options, job);
  NewFolder folder(options.dry_run ? "" : target.parent_path());
  ckpt::JsonWriter json(2);
  int code = run_job(context, options, {"split", ""}, job, take, json);
  if (options.json) context.out.print(json.text() + "\n");
  return code;
}

}  // namespace

void add_split(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "split", "ckpt split --max-shard-size 2GB net.pth -o net/\n  ckpt split --shards 4 net.safetensors",
      "Split a model into several safetensors files with an index, in the order of the "
      "file. The index is written last; shards of an older index there are removed after "
      "that.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->input, "checkpoint; FILE::path takes only what is there")
      .required()
      .type_name("");
  command.add_option("-o,--output", options->output, "folder, or NAME.safetensors.index.json (default: NAME-shards/)")
      .type_name("DIR");
  command.add_option("--shards", options->shards, "write this many files of about the same size")
      .type_name("N")
      .range(1, 99999);
  command.add_option("--prefix", options->shard_prefixes, "keys with this prefix get their own files; may be repeated")
      .type_name("P")
      .one_value_each();
  add_write_options(command, *options);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
