// ckpt devices: what models can run on; the program ckpt-run does it.

#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/runtime_program.h"
#include "tools/run/run_options.h"

namespace cli {

void add_devices(CommandSpec app, Command& chosen) {
  auto options = std::make_shared<DevicesOptions>();
  CommandSpec devices = define_devices(app, *options);
  devices.callback([&chosen, devices, options] {
    std::vector<std::string> words = {"devices"};
    for (std::string& word : devices.told()) words.push_back(std::move(word));
    chosen = [words](Context&) -> int { become_runtime_program(words); };
  });
}

}  // namespace cli
