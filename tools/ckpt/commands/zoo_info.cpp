// ckpt zoo info: what a model is built from; the program ckpt-run does it.

#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/runtime_program.h"
#include "tools/run/run_options.h"

namespace cli {

void add_zoo_info(CommandSpec zoo, Command& chosen) {
  auto options = std::make_shared<ZooInfoOptions>();
  CommandSpec info = define_zoo_info(zoo, *options);
  info.callback([&chosen, info, options] {
    std::vector<std::string> words = {"zoo", "info"};
    for (std::string& word : info.told()) words.push_back(std::move(word));
    chosen = [words](Context&) -> int { become_runtime_program(words); };
  });
}

}  // namespace cli
