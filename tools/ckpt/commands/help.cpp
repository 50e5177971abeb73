// ckpt help: what `ckpt COMMAND --help` prints, for those who type it the other way round.

#include "tools/ckpt/help/help.h"
#include "tools/ckpt/commands/commands.h"

namespace cli {

void add_help(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "help", "ckpt help strip-prefix\n  ckpt help zoo run",
                                    "Print the help of a command; the same as 'ckpt COMMAND --help'.");
  auto words = std::make_shared<std::vector<std::string>>();
  command.add_option("COMMAND", *words, "command, and the command below it (default: ckpt itself)").type_name("");
  command.callback([app, &chosen, words] {
    // The tree of commands lives as long as the command line is being read.
    chosen = [text = help_of(app.tree(), *words)](Context& context) {
      context.out.print(text);
      return 0;
    };
  });
}

}  // namespace cli
