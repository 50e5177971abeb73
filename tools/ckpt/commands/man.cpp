// ckpt man: the manual page of a command, made from what --help says.

#include <filesystem>

#include "libckpt/io/atomic_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/help/man_page.h"

namespace cli {
namespace {

struct Options {
  std::string command;
  std::string folder;
};

int write_pages(Context& context, const std::string& folder, const std::vector<ManPage>& pages) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const ManPage& page : pages) {
    ckpt::AtomicFile file(std::filesystem::path(folder) / (page.name + ".1"), {.durable = false});
    file.write(core::as_bytes(page.text));
    file.commit();
  }
  context.out.print(core::printable(folder) + ": " + count_of(pages.size(), "manual page") + " written\n");
  return 0;
}

}  // namespace

void add_man(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "man", "ckpt man ls | man -l -\n  ckpt man --write man1",
                                    "Print the manual page of a command, or of ckpt.");
  auto options = std::make_shared<Options>();
  command.add_option("COMMAND", options->command, "command (default: ckpt itself)").type_name("");
  command.add_option("--write", options->folder, "write all pages into this folder instead").type_name("DIR");
  command.callback([app, &chosen, options] {
    // The tree of commands lives as long as the command line is being read.
    if (!options->folder.empty()) {
      chosen = [folder = options->folder, pages = all_man_pages(app.tree())](Context& context) {
        return write_pages(context, folder, pages);
      };
      return;
    }
    chosen = [text = man_page(app.tree(), options->command)](Context& context) {
      context.out.print(text);
      return 0;
    };
  });
}

}  // namespace cli
