// ckpt zoo run: runs a model; the program ckpt-run does it.

#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/runtime_program.h"
#include "tools/run/run_options.h"

namespace cli {

void add_zoo_run(CommandSpec zoo, Command& chosen) {
  auto options = std::make_shared<RunOptions>();
  CommandSpec run = define_zoo_run(zoo, *options);
  run.callback([&chosen, run, options] {
    std::vector<std::string> words = {"zoo", "run"};
    for (std::string& word : run.told()) words.push_back(std::move(word));
    chosen = [words](Context&) -> int { become_runtime_program(words); };
  });
}

}  // namespace cli
