// ckpt view: a browser for one file, or two side by side, in the terminal.

#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/input.h"
#include "tools/ckpt/view/browser.h"
#include "tools/ckpt/view/terminal.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::string file;
  std::string other;
};

/// " ckpt cast --to bfloat16 net.pth; ckpt …"
std::string lines_of(const EditQueue& queue) {
  std::string lines;
  for (const QueuedEdit& edit : queue.edits()) lines += (lines.empty() ? " " : "; ") + edit.line;
  return lines;
}

/// Writes what the browser collected, as the commands do. When that fails the edits are not lost with the browser.
int write(Context& context, const Options& options, const EditQueue& queue, const std::string& output) {
  EditOptions edit;
  static_cast<ReadOptions&>(edit) = options;
  edit.files = {options.file};
  edit.output = output;
  edit.in_place = output.empty();
  try {
    return run_edits(context, edit, {"view", "edited"}, [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
      return queue.apply(checkpoint, at);
    });
  } catch (core::Error& error) {
    throw core::Error(error.code(), std::string(error.what()) + "; these edits were not made:" + lines_of(queue));
  }
}

struct Opened {
  Address address;
  ckpt::Checkpoint checkpoint;
  const ckpt::Value* root = nullptr;
  std::vector<ckpt::NamedEntry> entries;
  std::string warning;  ///< the first of opening
};

void open(const Options& options, const std::string& file, Opened& out) {
  ckpt::Report report;
  out.address = parse_address(file);
  out.checkpoint = ckpt::open(out.address.path, options.look(report));
  out.root = &core::with_context(
      out.address.shown(), [&]() -> const ckpt::Value& { return ckpt::value_at(out.checkpoint.root, out.address.at); });
  out.entries = ckpt::list_entries(*out.root);
  if (!report.warnings.empty()) out.warning = out.address.shown() + ": " + report.warnings.front();
}

/// What is to be written, and where; the files are closed again.
std::optional<std::string> browse(Context& context, const Options& options, EditQueue& queue) {
  Opened first, second;
  open(options, options.file, first);
  if (!options.other.empty()) open(options, options.other, second);
  BrowsedFiles files;
  files.checkpoint = &first.checkpoint;
  files.at = first.address.at;
  files.root = first.root;
  files.first = first.address.text();
  files.second = options.other.empty() ? "" : second.address.text();
  files.warning = first.warning.empty() ? second.warning : first.warning;
  TensorTree tree(options.other.empty() ? alone(first.entries) : beside(first.entries, second.entries));
  Screen screen(context.out.colors());
  Browser browser(screen, files, std::move(tree), options.threads);
  std::optional<std::string> output = browser.run();
  queue = browser.queue();
  return output;
}

int run(Context& context, const Options& options) {
  require_terminal();
  EditQueue queue;
  const std::optional<std::string> output = browse(context, options, queue);
  return output ? write(context, options, queue, *output) : static_cast<int>(kDone);
}

}  // namespace

void add_view(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "view", "ckpt view best.pth\n  ckpt view old.pth new.safetensors",
                  "Browse a file in the terminal: its modules as a tree that opens and folds, search, "
                  "orders, the values of a tensor, edits that are collected and shown before they are "
                  "made. With two files: what differs. The key ? shows all keys, q leaves.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->file, "checkpoint, or FILE::path").required().type_name("");
  command.add_option("OTHER", options->other, "a second one to compare it with").type_name("");
  add_read_options(command, *options);
  command.remove_options({"--json", "--jsonl", "--quiet"});
  add_io_option(command, *options);
  add_remote_options(command);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
