// ckpt man: the manual page of a command, made from what --help says.

#include <filesystem>

#include "libckpt/io/atomic_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands.h"
#include "tools/ckpt/help.h"
#include "tools/ckpt/man_page.h"
#include "tools/ckpt/suggest.h"

namespace cli {
namespace {

struct Options {
  std::string command;
  std::string folder;
};

const CLI::App& find_command(const CLI::App& app, const std::string& name) {
  if (name.empty()) return app;
  std::vector<std::string> names;
  for (const CLI::App* command : subcommands(app)) {
    if (command->check_name(name)) return *command;
    names.push_back(command->get_name());
  }
  throw core::Error(core::ErrorCode::usage, "no command is named " + core::quote(name) + did_you_mean(name, names));
}

struct Page {
  std::string name;
  std::string text;
};

std::vector<Page> all_pages(const CLI::App& app) {
  std::vector<Page> pages = {{man_name(app), man_page(app)}};
  for (const CLI::App* command : subcommands(app)) pages.push_back({man_name(*command), man_page(*command)});
  return pages;
}

int write_pages(Context& context, const std::string& folder, const std::vector<Page>& pages) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const Page& page : pages) {
    ckpt::AtomicFile file(std::filesystem::path(folder) / (page.name + ".1"), {.durable = false});
    file.write(core::as_bytes(page.text));
    file.commit();
  }
  context.out.print(core::printable(folder) + ": " + count_of(pages.size(), "manual page") + " written\n");
  return 0;
}

}  // namespace

void add_man(CLI::App& app, Command& chosen) {
  CLI::App& command =
      add_command(app, "man", "ckpt man ls | man -l -", "Print the manual page of a command, or of ckpt.");
  auto options = std::make_shared<Options>();
  command.add_option("COMMAND", options->command, "command (default: ckpt itself)")->type_name("");
  command.add_option("--write", options->folder, "write all pages into this folder instead")->type_name("DIR");
  command.callback([&app, &chosen, options] {
    // The tree of commands lives as long as the command line is being read.
    if (!options->folder.empty()) {
      chosen = [folder = options->folder, pages = all_pages(app)](Context& context) {
        return write_pages(context, folder, pages);
      };
      return;
    }
    chosen = [text = man_page(find_command(app, options->command))](Context& context) {
      context.out.print(text);
      return 0;
    };
  });
}

}  // namespace cli
