// ckpt completion: the script that lets a shell complete commands, options, files and keys.

#include "tools/ckpt/help/completion.h"
#include "tools/ckpt/commands/commands.h"

namespace cli {
namespace {

struct Options {
  std::string shell;
  std::vector<std::string> words;
};

Command print(std::string text) {
  return [text = std::move(text)](Context& context) {
    context.out.print(text);
    return 0;
  };
}

}  // namespace

void add_completion(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "completion",
                                    "eval \"$(ckpt completion bash)\"      # in ~/.bashrc\n  ckpt completion fish > "
                                    "ckpt.fish    # for ~/.config/fish/completions",
                                    "Print the completion script of a shell: bash, zsh or fish.");
  auto options = std::make_shared<Options>();
  command.add_option("SHELL", options->shell, "bash, zsh or fish").required().type_name("");
  command.add_option("WORD", options->words, "behind '--': the words so far, whose last is completed").hidden();
  command.callback([app, command, &chosen, options] {
    std::string script = completion_script(options->shell);
    bool asks = command.was_given("WORD");
    // The tree of commands lives as long as the command line is being read.
    chosen = print(asks ? completion_reply(options->shell, complete(app.tree(), options->words)) : std::move(script));
  });
}

}  // namespace cli
