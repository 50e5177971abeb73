// ckpt zoo rules: the shipped rules between the names of projects.

#include <algorithm>

#include "libckpt/io/json.h"
#include "libckpt/transform/glob.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/exit_code.h"
#include "zoo/rules/rule_packs.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::string glob;
  bool toml = false;
};

using Packs = std::vector<const ckpt::RulePack*>;

bool is_called(const std::string& glob, const ckpt::RulePack& pack) {
  if (glob.empty() || ckpt::glob_match(glob, pack.name)) return true;
  const std::vector<std::string_view> others = core::split(pack.also, ' ');
  return std::any_of(others.begin(), others.end(),
                     [&](std::string_view other) { return !other.empty() && ckpt::glob_match(glob, other); });
}

Packs chosen_packs(const std::string& glob) {
  Packs packs;
  for (const ckpt::RulePack& pack : zoo::rule_packs()) {
    if (is_called(glob, pack)) packs.push_back(&pack);
  }
  return packs;
}

std::string json_of(const Packs& packs) {
  ckpt::JsonWriter json(2);
  json.begin_object().key("rules").begin_array();
  for (const ckpt::RulePack* pack : packs) {
    json.begin_object();
    json.key("name").value(pack->name);
    json.key("from").value(pack->from);
    json.key("to").value(pack->to);
    json.key("models").value(pack->models);
    json.key("note").value(pack->note);
    json.key("also").value(pack->also);
    json.key("steps").begin_array();
    for (const ckpt::Rule& rule : pack->rules) json.value(ckpt::describe(rule));
    json.end_array();
    json.end_object();
  }
  json.end_array().end_object();
  return json.take() + "\n";
}

void print_table(Output& out, const Packs& packs) {
  Table table({{"NAME"}, {"FROM"}, {"TO"}, {"MODELS"}});
  for (const ckpt::RulePack* pack : packs) table.add_row({pack->name, pack->from, pack->to, pack->models});
  table.print(out);
  out.print("use: ckpt rename --rules NAME FILE; --reverse goes from the second names to the first\n");
}

int run(Context& context, const Options& options) {
  Packs packs = chosen_packs(options.glob);
  if (options.toml && packs.size() != 1) {
    throw core::Error(core::ErrorCode::usage, "--toml prints one file of rules, and " +
                                                  core::quote(options.glob.empty() ? "*" : options.glob) + " means " +
                                                  core::format_count(packs.size()) + "; give the name of one");
  }
  if (options.json) {
    context.out.print(json_of(packs));
  } else if (options.toml) {
    context.out.print(zoo::rule_pack_text(packs.front()->name));
  } else if (options.quiet) {
    for (const ckpt::RulePack* pack : packs) context.out.print(pack->name + "\n");
  } else if (packs.empty()) {
    context.out.print("no rules are named " + core::quote(options.glob) + "; 'ckpt zoo rules' lists them\n");
  } else {
    print_table(context.out, packs);
  }
  return packs.empty() ? kNo : kDone;
}

}  // namespace

void add_zoo_rules(CommandSpec zoo, Command& chosen) {
  CommandSpec command =
      add_command(zoo, "rules", "ckpt zoo rules\n  ckpt zoo rules timm-vit --toml > mine.toml",
                  "List the rules between the names of projects (torchvision, timm, Hugging Face, nanoGPT, older "
                  "releases). 'ckpt rename --rules NAME' applies one; 'ckpt why' and 'ckpt fix' find them by "
                  "themselves.");
  auto options = std::make_shared<Options>();
  command.add_option("GLOB", options->glob, "only rules whose name matches").type_name("");
  command.add_flag("--toml", options->toml, "print the rules themselves, as a file to copy and change");
  add_answer_options(command, *options);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
