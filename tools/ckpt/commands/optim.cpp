// ckpt optim: the state of optimizers: show it by parameter, drop it, move it, change its keys.

#include "libckpt/analyze/plain_values.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/optimizer.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

struct ShowOptions : ReadOptions {
  std::string file;
  std::string model;
};

struct ChangeOptions : EditOptions {
  std::string model;
  std::string to;
};

/// The state dict that gives names, from another file; stays open as long as it is used.
struct ModelFile {
  ckpt::Checkpoint checkpoint;
  const ckpt::Value* value = nullptr;
};

ModelFile open_model(const ReadOptions& options, const std::string& text) {
  ModelFile model;
  if (text.empty()) return model;
  Address address = parse_address(text);
  ckpt::Report ignored;
  model.checkpoint = ckpt::open(address.path, options.look(ignored));
  const ckpt::Value& root = model.checkpoint.root;
  std::string at = address.at;
  for (const char* usual : {"state_dict", "model", "model_state_dict"}) {
    if (at.empty() && root.find(usual) != nullptr) at = usual;
  }
  model.value = &core::with_context(address.text(), [&]() -> const ckpt::Value& { return ckpt::value_at(root, at); });
  return model;
}

std::string slots_text(const ckpt::OptimizerParam& param) {
  std::string text;
  for (const ckpt::OptimizerSlot& slot : param.slots) {
    text += (text.empty() ? "" : ", ") + core::printable(slot.name);
    if (!slot.value.is(ckpt::Value::Kind::tensor)) {
      text += "=" + core::printable(ckpt::value_text(slot.value, 20));
    } else if (!slot.value.as_entry().shape.empty()) {
      text += core::to_list(slot.value.as_entry().shape);
    }
  }
  return text;
}

std::string name_text(const ckpt::OptimizerParam& param) {
  if (!param.name.empty()) return core::printable(param.name);
  return param.candidates.empty() ? "?" : "? " + param.candidates;
}

std::string settings_text(const ckpt::OptimizerGroup& group) {
  std::string text;
  for (const auto& [name, value] : group.settings) {
    if (value.is_null() || name == "initial_lr") continue;
    text += (text.empty() ? "" : ", ") + core::printable(name) + "=" + core::printable(ckpt::value_text(value, 30));
  }
  return text;
}

void print_optimizer(Context& context, const ckpt::OptimizerState& optimizer) {
  std::string name = optimizer.at.empty() ? "optimizer" : core::printable(optimizer.at);
  context.out.print_heading(name + ": " + count_of(optimizer.params.size(), "parameter") + " in " +
                            count_of(optimizer.groups.size(), "group") + ", " + core::format_size(optimizer.bytes) +
                            "\n");
  for (std::size_t g = 0; g < optimizer.groups.size(); ++g) {
    context.out.print("  group " + std::to_string(g) + ": " + count_of(optimizer.groups[g].params, "parameter") + ", " +
                      settings_text(optimizer.groups[g]) + "\n");
  }
  using Align = Table::Align;
  Table table({{"key", Align::right},
               {"name", Align::left},
               {"group", Align::right},
               {"size", Align::right},
               {"state", Align::left},
               {"named by", Align::left}});
  for (const ckpt::OptimizerParam& param : optimizer.params) {
    table.add_row({optimizer.by_name ? "" : core::printable(ckpt::step_text(param.key)), name_text(param),
                   std::to_string(param.group), core::format_size(param.bytes), slots_text(param),
                   ckpt::name(param.evidence)});
  }
  table.print(context.out);
  if (!optimizer.note.empty()) context.out.print("  " + optimizer.note + "\n");
}

void write_slot(ckpt::JsonWriter& json, const ckpt::OptimizerSlot& slot) {
  json.begin_object().key("name").value(slot.name);
  if (slot.value.is(ckpt::Value::Kind::tensor)) {
    const ckpt::Entry& entry = slot.value.as_entry();
    json.key("dtype").value(core::name(entry.dtype)).key("shape").begin_array();
    for (std::int64_t size : entry.shape) json.value(size);
    json.end_array().key("location").value(entry.location).key("bytes").value(entry.byte_size());
  } else {
    write_value(json.key("value"), slot.value);
  }
  json.end_object();
}

void write_optimizer(ckpt::JsonWriter& json, const ckpt::OptimizerState& optimizer) {
  json.begin_object();
  json.key("at").value(optimizer.at);
  json.key("keyed_by").value(optimizer.by_name ? "name" : "index");
  json.key("bytes").value(optimizer.bytes);
  json.key("groups").begin_array();
  for (const ckpt::OptimizerGroup& group : optimizer.groups) {
    json.begin_object().key("parameters").value(group.params).key("settings").begin_object();
    for (const auto& [name, value] : group.settings) write_value(json.key(name), value);
    json.end_object().end_object();
  }
  json.end_array();
  json.key("parameters").begin_array();
  for (const ckpt::OptimizerParam& param : optimizer.params) {
    json.begin_object();
    write_value(json.key("key"), param.key);
    if (param.name.empty()) json.key("name").null();
    if (!param.name.empty()) json.key("name").value(param.name);
    json.key("known_by").value(ckpt::name(param.evidence));
    if (!param.candidates.empty()) json.key("candidates").value(param.candidates);
    json.key("group").value(static_cast<std::uint64_t>(param.group));
    json.key("bytes").value(param.bytes);
    json.key("state").begin_array();
    for (const ckpt::OptimizerSlot& slot : param.slots) write_slot(json, slot);
    json.end_array().end_object();
  }
  json.end_array();
  if (!optimizer.note.empty()) json.key("note").value(optimizer.note);
  json.end_object();
}

int show(Context& context, const ShowOptions& options) {
  Address source = parse_address(options.file);
  ckpt::Report report;
  ckpt::Checkpoint checkpoint = ckpt::open(source.path, options.look(report));
  ModelFile model = open_model(options, options.model);
  std::vector<ckpt::OptimizerState> optimizers = core::with_context(
      source.shown(), [&] { return ckpt::describe_optimizers(checkpoint, {.at = source.at, .model = model.value}); });
  say_report(options, source.path, report);
  if (!options.json) {
    for (const ckpt::OptimizerState& optimizer : optimizers) print_optimizer(context, optimizer);
    return 0;
  }
  ckpt::JsonWriter json(2);
  json.begin_object().key("file").value(source.shown()).key("optimizers").begin_array();
  for (const ckpt::OptimizerState& optimizer : optimizers) write_optimizer(json, optimizer);
  json.end_array();
  write_report(json, report);
  json.end_object();
  context.out.print(json.text() + "\n");
  return 0;
}

Edit change_edit(ckpt::Checkpoint checkpoint, const ckpt::OptimizerChanges& changes, const std::string& what) {
  Edit edit;
  edit.checkpoint = std::move(checkpoint);
  edit.summary = count_of(changes.optimizers.size(), "optimizer") + " (" + count_of(changes.params, "parameter") +
                 ", " + core::format_size(changes.bytes) + ") " + what;
  for (const std::string& at : changes.optimizers) edit.steps.push_back(core::printable(at) + " " + what);
  edit.json = [changes](ckpt::JsonWriter& json) {
    json.key("optimizers").begin_array();
    for (const std::string& at : changes.optimizers) json.value(at);
    json.end_array();
    json.key("parameters").value(changes.params);
    json.key("state_bytes").value(changes.bytes);
  };
  return edit;
}

int drop(Context& context, const ChangeOptions& options) {
  return run_edits(context, options, {"optim drop", "weights"},
                   [&](const ckpt::Checkpoint& file, const std::string& at) {
                     ckpt::OptimizerChanges changes;
                     ckpt::Checkpoint out = ckpt::drop_optimizers(file, {.at = at}, &changes);
                     return change_edit(std::move(out), changes, "dropped");
                   });
}

int move(Context& context, const ChangeOptions& options) {
  return run_edits(context, options, {"optim move", "moved"}, [&](const ckpt::Checkpoint& file, const std::string& at) {
    ckpt::LocationChanges changes;
    Edit edit;
    edit.checkpoint = ckpt::move_optimizers(file, options.to, {.at = at}, &changes);
    edit.changed = changes.changed + changes.device_values > 0;
    edit.summary = core::format_count(changes.changed) + " of " + count_of(changes.tensors, "state tensor") +
                   " moved to " + core::printable(options.to);
    edit.json = [changes](ckpt::JsonWriter& json) {
      json.key("tensors").value(changes.tensors).key("tensors_moved").value(changes.changed);
    };
    return edit;
  });
}

int rekey(Context& context, const ChangeOptions& options) {
  if (options.to != "name" && options.to != "index") {
    throw core::Error(core::ErrorCode::usage, "--to " + core::quote(options.to) + " is not 'name' or 'index'");
  }
  ModelFile model = open_model(options, options.model);
  ckpt::OptimizerKeys keys = options.to == "name" ? ckpt::OptimizerKeys::name : ckpt::OptimizerKeys::index;
  return run_edits(
      context, options, {"optim rekey", "rekeyed"}, [&](const ckpt::Checkpoint& file, const std::string& at) {
        ckpt::OptimizerChanges changes;
        ckpt::Checkpoint out = ckpt::rekey_optimizers(file, keys, {.at = at, .model = model.value}, &changes);
        return change_edit(std::move(out), changes, "keyed by " + options.to);
      });
}

void add_model_option(CommandSpec command, std::string& model) {
  command.add_option("--model", model, "file with the model's state dict, if it is not in this one").type_name("FILE");
}

void add_show(CommandSpec optim, Command& chosen) {
  CommandSpec command =
      add_command(optim, "show", "ckpt optim show last.pth\n  ckpt optim show optim.pth --model net.pth",
                  "List the state of every parameter by name, with its size.");
  auto options = std::make_shared<ShowOptions>();
  command.add_option("FILE", options->file, "checkpoint; FILE::path names one optimizer").required().type_name("");
  add_model_option(command, options->model);
  add_read_options(command, *options);
  add_remote_options(command);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return show(context, *options); }; });
}

void add_change(CommandSpec command, std::shared_ptr<ChangeOptions> options, const std::string& output, Command& chosen,
                int (*run)(Context&, const ChangeOptions&)) {
  add_edit_options(command, *options, output);
  command.callback(
      [&chosen, options, run] { chosen = [options, run](Context& context) { return run(context, *options); }; });
}

}  // namespace

void add_optim(CommandSpec app, Command& chosen) {
  CommandSpec optim =
      add_command(app, "optim", "ckpt optim show last.pth\n  ckpt optim drop last.pth -o weights.pth",
                  "Work on optimizer state: show it by parameter, drop it, move it, or change its keys.");
  optim.require_subcommand();
  add_show(optim, chosen);
  auto dropped = std::make_shared<ChangeOptions>();
  CommandSpec drop_command =
      add_command(optim, "drop", "ckpt optim drop last.pth -o weights.pth\n  ckpt optim drop --in-place last.pth",
                  "Write the file without optimizer state; everything else stays.");
  add_change(drop_command, dropped, "NAME.weights.EXT beside the input", chosen, drop);
  auto moved = std::make_shared<ChangeOptions>();
  CommandSpec move_command = add_command(
      optim, "move", "ckpt optim move --to cpu last.pth\n  ckpt optim move --to cuda:1 last.pth -o gpu1.pth",
      "Change the device tags of the optimizer state alone; step counters stay on the "
      "CPU unless a group is capturable or fused.");
  move_command.add_option("--to", moved->to, "device").required().type_name("DEV");
  add_change(move_command, moved, "NAME.moved.EXT beside the input", chosen, move);
  auto rekeyed = std::make_shared<ChangeOptions>();
  CommandSpec rekey_command = add_command(
      optim, "rekey",
      "ckpt optim rekey --to name last.pth -o named.pth\n  ckpt optim rekey --to index named.pth -o indexed.pth",
      "Key the state by parameter names (as FSDP does) or by numbers (as torch.optim "
      "loads it; the names are kept in param_names).");
  rekey_command.add_option("--to", rekeyed->to, "name or index").required().type_name("KEYS");
  add_model_option(rekey_command, rekeyed->model);
  add_change(rekey_command, rekeyed, "NAME.rekeyed.EXT beside the input", chosen, rekey);
}

}  // namespace cli
