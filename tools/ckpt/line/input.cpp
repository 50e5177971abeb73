#include "tools/ckpt/line/input.h"

#include "libckpt/damage.h"
#include "libckpt/hub/quantization_config.h"
#include "libckpt/objects.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"

namespace cli {

Input open_input(const ReadOptions& options, const std::string& file, bool dequantize) {
  Input input;
  input.address = parse_address(file);
  input.checkpoint = ckpt::open(input.address.path, options.look(input.report));
  if (dequantize) {
    core::with_context(input.address.shown(), [&] {
      const std::filesystem::path& path = input.address.path;
      input.checkpoint = ckpt::dequantize(input.checkpoint, ckpt::quantization_config(path, options.allow_symlinks));
    });
  }
  ckpt::Value place = core::with_context(input.address.shown(),
                                         [&] { return ckpt::value_at(input.checkpoint.root, input.address.at); });
  input.checkpoint.root = std::move(place);
  ckpt::narrow_report(input.report, input.checkpoint.root);
  say_report(options, input.address.path, input.report);
  return input;
}

void add_dequantize_option(CommandSpec command, bool& dequantize) {
  command.add_flag("--dequantize", dequantize,
                   "take layers of GPTQ, AWQ and compressed-tensors as the weights that they stand for");
}

void say_damage(const ReadOptions& options, Input& input) {
  std::string text = ckpt::damage_warning(ckpt::list_entries(input.checkpoint.root));
  if (text.empty()) return;
  ckpt::Report report;
  report.warnings.push_back(text);
  say_report(options, input.address.path, report);
  input.report.warnings.push_back(std::move(text));
}

}  // namespace cli
