// ckpt undo: takes the last edit in place of a file back.

#include "libckpt/format/folder.h"
#include "libckpt/format/in_place.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/replaced_file.h"

namespace cli {
namespace {

struct Options {
  std::vector<std::string> files;
  bool follow = false;
  bool quiet = false;
};

int run(Context& context, const Options& options) {
  std::vector<std::filesystem::path> files;  // a folder stands for the index in it
  for (const std::string& file : options.files) {
    files.push_back(ckpt::resolve_folder(file));
    check_replaced(files.back(), {.follow = options.follow});
  }
  for (const std::filesystem::path& file : files) {
    std::uint64_t bytes = ckpt::undo_edit(file);
    if (options.quiet) continue;
    context.out.print(core::printable(file.string()) + ": the last edit in place was taken back, " +
                      core::format_size(bytes) + " put back or cut off\n");
  }
  return 0;
}

}  // namespace

void add_undo(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(
      app, "undo",
      "ckpt rename --in-place --glob 'fc.*=h.*' net.safetensors && ckpt undo net.safetensors\n"
      "  ckpt meta --in-place --unset format net.safetensors && ckpt undo net.safetensors",
      "Take back the last edit in place, byte for byte, or one that was interrupted. Undone again, it is done "
      "again. Refused where the file was changed since; of a .pth, whose edits only append, what was appended "
      "last is cut off. Of shards all go back together. An edit that wrote a whole new file (the closing line says "
      "which) has no undo.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "file, or folder of shards, that was edited with --in-place")
      .required()
      .type_name("");
  command.add_flag("--follow", options->follow, "change the file behind a symbolic link");
  command.add_flag("-q,--quiet", options->quiet, "print nothing");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
