// ckpt remap: other device tags, without a device.

#include "libckpt/transform/map_location.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"

namespace cli {
namespace {

struct Options : EditOptions {
  std::string to;
  std::vector<std::string> map;
};

ckpt::MapLocationOptions parse_map(const Options& options) {
  ckpt::MapLocationOptions parsed;
  parsed.to = options.to;
  for (const std::string& pair : options.map) {
    std::size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == pair.size()) {
      throw core::Error(core::ErrorCode::usage, "--map " + core::quote(pair) + " is not of the form OLD=NEW");
    }
    parsed.map.emplace_back(pair.substr(0, equals), pair.substr(equals + 1));
  }
  if (parsed.to.empty() == parsed.map.empty()) {
    throw core::Error(core::ErrorCode::usage, "give either --to DEVICE for all tensors, or --map OLD=NEW");
  }
  // Found out here, a mistake in the command line costs no reading.
  ckpt::map_location(ckpt::Checkpoint{}, parsed);
  return parsed;
}

void write_counts(ckpt::JsonWriter& json, const ckpt::LocationChanges& changes) {
  json.key("tensors").value(changes.tensors);
  json.key("tensors_moved").value(changes.changed);
  json.key("device_values_changed").value(changes.device_values);
  json.key("moves").begin_array();
  for (const ckpt::LocationChanges::Count& count : changes.counts) {
    json.begin_object();
    json.key("from").value(count.from);
    json.key("to").value(count.to);
    json.key("tensors").value(count.tensors);
    json.end_object();
  }
  json.end_array();
}

Edit describe(ckpt::Checkpoint checkpoint, const ckpt::LocationChanges& changes) {
  Edit edit;
  edit.checkpoint = std::move(checkpoint);
  edit.changed = changes.changed + changes.device_values > 0;
  edit.summary = core::format_count(changes.changed) + " of " + count_of(changes.tensors, "tensor") + " moved";
  for (const ckpt::LocationChanges::Count& count : changes.counts) {
    edit.steps.push_back(core::printable(count.from) + " -> " + core::printable(count.to) + ": " +
                         count_of(count.tensors, "tensor"));
  }
  if (changes.device_values > 0) edit.summary += ", " + count_of(changes.device_values, "torch.device value") + " too";
  edit.json = [changes](ckpt::JsonWriter& json) { write_counts(json, changes); };
  return edit;
}

int run(Context& context, const Options& options) {
  ckpt::MapLocationOptions remap = parse_map(options);
  return run_edits(context, options, {"remap", "remapped"},
                   [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
                     remap.at = at;
                     ckpt::LocationChanges changes;
                     ckpt::Checkpoint moved = ckpt::map_location(checkpoint, remap, &changes);
                     return describe(std::move(moved), changes);
                   });
}

}  // namespace

void add_remap(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "remap",
                  "ckpt remap --to cpu net.pth          # writes net.remapped.pth\n  ckpt remap "
                  "--map cuda:1=cuda:0 net.pth -o net0.pth",
                  "Change the device tags of tensors; needs no GPU, and the values stay as they are.");
  auto options = std::make_shared<Options>();
  OptionSpec to = command.add_option("--to", options->to, "tag all tensors with this device").type_name("DEV");
  command.add_option("--map", options->map, "change this tag to that one; may be repeated, all apply at once")
      .type_name("OLD=NEW")
      .one_value_each()
      .excludes(to);
  add_edit_options(command, *options, "NAME.remapped.EXT beside the input");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
