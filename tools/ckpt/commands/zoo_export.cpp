// ckpt zoo export: a model as ONNX; the program ckpt-run does it.

#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/runtime_program.h"
#include "tools/run/run_options.h"

namespace cli {

void add_zoo_export(CommandSpec zoo, Command& chosen) {
  auto options = std::make_shared<ZooExportOptions>();
  CommandSpec command = define_zoo_export(zoo, *options);
  command.callback([&chosen, command, options] {
    std::vector<std::string> words = {"zoo", "export"};
    for (std::string& word : command.told()) words.push_back(std::move(word));
    chosen = [words](Context&) -> int { become_runtime_program(words); };
  });
}

}  // namespace cli
