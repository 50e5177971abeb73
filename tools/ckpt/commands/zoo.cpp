// ckpt zoo: the key lists of known models.

#include <algorithm>
#include <map>

#include "libckpt/io/json.h"
#include "libckpt/transform/glob.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/why_target.h"
#include "tools/ckpt/commands/zoo_verify.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/address.h"
#include "zoo/manifest/manifest.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::string name;
};

std::string shape_text(const ckpt::WantedKey& key) {
  return key.shape ? core::to_list(*key.shape) : "";
}

std::string kind_text(const ckpt::WantedKey& key) {
  if (key.kind == ckpt::WantedKey::Kind::parameter) return "parameter";
  return key.kind == ckpt::WantedKey::Kind::buffer ? "buffer" : "";
}

std::vector<zoo::ManifestInfo> chosen_models(const std::string& glob) {
  std::vector<zoo::ManifestInfo> models;
  for (const zoo::ManifestInfo& info : zoo::list_manifests()) {
    if (glob.empty() || ckpt::glob_match(glob, info.name)) models.push_back(info);
  }
  return models;
}

int run_ls(Context& context, const Options& options) {
  std::vector<zoo::ManifestInfo> models = chosen_models(options.name);
  if (options.json) {
    ckpt::JsonWriter json(2);
    json.begin_object().key("models").begin_array();
    for (const zoo::ManifestInfo& info : models) {
      json.begin_object();
      json.key("name").value(info.name);
      json.key("tensors").value(info.tensors);
      json.key("parameters").value(info.parameters);
      json.key("runs").value(info.runs);
      json.key("reference").value(info.reference);
      json.key("arguments").raw(info.arguments.empty() ? "{}" : info.arguments);
      json.end_object();
    }
    json.end_array().end_object();
    context.out.print(json.text() + "\n");
  } else if (options.quiet) {
    for (const zoo::ManifestInfo& info : models) context.out.print(info.name + "\n");
  } else {
    Table table(
        {{"NAME"}, {"TENSORS", Table::Align::right}, {"PARAMETERS", Table::Align::right}, {"RUNS"}, {"REFERENCE"}});
    std::uint64_t running = 0;
    for (const zoo::ManifestInfo& info : models) {
      running += info.runs ? 1 : 0;
      table.add_row({info.name, core::format_count(info.tensors), core::format_count(info.parameters),
                     info.runs ? "yes" : "-", info.reference});
    }
    table.print(context.out);
    context.out.print(count_of(models.size(), "model") + ", " + core::format_count(running) +
                      " of which 'ckpt zoo run' can run; of the others only the keys are known\n");
  }
  return models.empty() ? kNo : kDone;
}

void write_key(ckpt::JsonWriter& json, const ckpt::WantedKey& key) {
  json.begin_object();
  json.key("name").value(key.key);
  json.key("shape").begin_array();
  for (std::int64_t size : *key.shape) json.value(size);
  json.end_array();
  if (key.dtype) json.key("dtype").value(core::name(*key.dtype));
  if (key.kind != ckpt::WantedKey::Kind::unknown) json.key("kind").value(kind_text(key));
  json.end_object();
}

void write_keys(ckpt::JsonWriter& json, const ckpt::KeyList& model) {
  json.begin_object();
  json.key("name").value(model.name);
  json.key("reference").value(model.reference);
  json.key("arguments").raw(model.arguments.empty() ? "{}" : model.arguments);
  json.key("parameters").value(model.parameters);
  json.key("tensors").begin_array();
  for (const ckpt::WantedKey& key : model.keys) write_key(json, key);
  json.end_array();
  json.key("ties").begin_array();
  for (const auto& group : model.ties) {
    json.begin_array();
    for (const std::string& name : group) json.value(name);
    json.end_array();
  }
  json.end_array();
  json.key("versions").begin_array();  // of modules, where they are not 1
  for (const auto& [module, version] : model.versions) {
    json.begin_object().key("module").value(module).key("version").value(version).end_object();
  }
  json.end_array();
  json.key("unsaved").begin_array();
  for (const ckpt::WantedKey& key : model.unsaved) write_key(json, key);
  json.end_array();
  json.end_object();
}

/// "a, b, c and 17 more".
std::string some(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> first(names.begin(),
                                 names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())));
  std::string more = names.size() > kMost ? " and " + core::format_count(names.size() - kMost) + " more" : "";
  return core::join(first, ", ") + more;
}

/// What belongs to a model beside its keys.
void print_rest(Output& out, const ckpt::KeyList& model) {
  for (const auto& group : model.ties) out.print("tied: " + core::join(group, ", ") + "\n");
  std::map<std::int64_t, std::vector<std::string>> modules;
  for (const auto& [module, version] : model.versions) modules[version].push_back(module);
  for (const auto& [version, names] : modules)
    out.print("version " + std::to_string(version) + ": " + some(names) + "\n");
  std::vector<std::string> unsaved;
  for (const ckpt::WantedKey& key : model.unsaved) unsaved.push_back(key.key);
  if (!unsaved.empty()) out.print("not saved: " + some(unsaved) + "\n");
}

int run_keys(Context& context, const Options& options) {
  ckpt::KeyList model = known_model(options.name);
  if (options.json) {
    ckpt::JsonWriter json(2);
    write_keys(json, model);
    context.out.print(json.text() + "\n");
    return kDone;
  }
  if (options.quiet) {
    for (const ckpt::WantedKey& key : model.keys) context.out.print(key.key + "\n");
    return kDone;
  }
  Table table({{"NAME"}, {"SHAPE"}, {"DTYPE"}, {"KIND"}});
  for (const ckpt::WantedKey& key : model.keys) {
    table.add_row({key.key, shape_text(key), key.dtype ? core::name(*key.dtype) : "", kind_text(key)});
  }
  table.print(context.out);
  print_rest(context.out, model);
  context.out.print(count_of(model.keys.size(), "tensor") + ", " + core::format_count(model.parameters) +
                    " parameters, as in " + model.reference + "\n");
  return kDone;
}

}  // namespace

void add_zoo(CommandSpec app, Command& chosen) {
  CommandSpec zoo =
      add_command(app, "zoo", "ckpt zoo ls 'resnet*'\n  ckpt zoo verify resnet50 best.pth",
                  "Known models: list them, print their keys, check a file against one, or run one on an input.");
  zoo.require_subcommand();
  auto options = std::make_shared<Options>();

  CommandSpec ls = add_command(zoo, "ls", "ckpt zoo ls\n  ckpt zoo ls 'resnet*'",
                               "List the models whose keys are known, and say which of them run.");
  ls.add_option("GLOB", options->name, "only names that match").type_name("");
  add_answer_options(ls, *options);
  ls.callback([&chosen, options] { chosen = [options](Context& context) { return run_ls(context, *options); }; });

  CommandSpec keys = add_command(zoo, "keys", "ckpt zoo keys resnet50\n  ckpt zoo keys vit_b_16 --json",
                                 "Print the keys of a model with shapes and dtypes, in order.");
  keys.add_option("NAME", options->name, "model").required().type_name("");
  add_answer_options(keys, *options);
  keys.callback([&chosen, options] { chosen = [options](Context& context) { return run_keys(context, *options); }; });

  add_zoo_rules(zoo, chosen);

  add_zoo_verify(zoo, chosen);
  add_zoo_info(zoo, chosen);
  add_zoo_run(zoo, chosen);
  add_zoo_export(zoo, chosen);
}

}  // namespace cli
