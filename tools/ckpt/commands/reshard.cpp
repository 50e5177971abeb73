// ckpt reshard: a distributed checkpoint in the parts of another number of ranks.

#include "libckpt/format/format.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"

namespace cli {
namespace {

struct Options : EditOptions {
  std::string input;
};

Edit take(const ckpt::Checkpoint& checkpoint, const std::string& at, std::uint32_t ranks) {
  Edit edit;
  edit.checkpoint = checkpoint;
  edit.checkpoint.root = ckpt::value_at(checkpoint.root, at);
  std::size_t tensors = ckpt::list_entries(edit.checkpoint.root).size();
  edit.summary = count_of(tensors, "tensor") + " spread over " + count_of(ranks, "rank");
  edit.json = [tensors, ranks](ckpt::JsonWriter& json) {
    json.key("tensors").value(static_cast<std::uint64_t>(tensors));
    json.key("ranks").value(static_cast<std::uint64_t>(ranks));
  };
  return edit;
}

/// OUT.parts are native parts; a name that says no format is PyTorch's folder.
std::string format_by_name(const std::string& out) {
  const ckpt::Format* format = ckpt::find_format_for(out);
  if (format == nullptr) return "dcp";
  if (format->is_folder) return std::string(format->name);
  throw core::Error(core::ErrorCode::usage, "is the name of a " + std::string(format->title) +
                                                ", where a folder is written; name OUT.dcp or OUT.parts")
      .add_context(out);
}

int run(Context& context, Options& options) {
  if (options.shards == 0) throw core::Error(core::ErrorCode::usage, "say for how many ranks: --ranks N");
  options.output = without_end_slashes(options.output);
  Job job{parse_address(options.input), options.output, format_by_name(options.output)};
  check_target(options, job);
  ckpt::JsonWriter json(2);
  auto take_for = [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
    return take(checkpoint, at, options.shards);
  };
  int code = run_job(context, options, {"reshard", ""}, job, take_for, json);
  if (options.json) context.out.print(json.text() + "\n");
  return code;
}

}  // namespace

void add_reshard(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "reshard",
      "ckpt reshard run.dcp -o wide.dcp --ranks 8\n  ckpt reshard run.dcp -o columns.dcp --ranks 2 --shard-dim 1\n  "
      "ckpt reshard run.dcp -o run.parts --ranks 2   # native: a .ckpt a rank",
      "Write a distributed checkpoint, or any other, as that many ranks would have written it. Tensors are cut as "
      "PyTorch's Shard(dim) does it; what is read of a part is what the new pieces need. The folder is "
      "PyTorch's, or native parts where its name is OUT.parts; 'ckpt split --shards N' writes safetensors.");
  auto options = std::make_shared<Options>();
  command.add_option("FOLDER", options->input, "checkpoint; FOLDER::path takes only what is there")
      .required()
      .type_name("");
  command.add_option("-o,--output", options->output, "folder to be written").required().type_name("OUT");
  add_rank_options(command, *options);
  add_write_options(command, *options);
  command.remove_options({"--in-place", "--follow", "--max-shard-size"});
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
