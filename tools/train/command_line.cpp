#include "tools/train/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/support/suggest.h"
#include "tools/train/commands.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;

/// The last of several wins: what stands on the command line comes behind what a config file says.
void add_field(CLI::App& app, const Field& field) {
  const std::string name = std::string("--") + field.name;
  CLI::Option* option = nullptr;
  if (const auto* text = std::get_if<std::string*>(&field.value)) {
    option = app.add_option(field.name == std::string("data") ? "data," + name : name, **text, field.help);
  } else if (const auto* integer = std::get_if<std::optional<std::int64_t>*>(&field.value)) {
    auto* to = *integer;
    option = app.add_option_function<std::int64_t>(
        name, [to](const std::int64_t& value) { *to = value; }, field.help);
  } else if (const auto* real = std::get_if<std::optional<double>*>(&field.value)) {
    auto* to = *real;
    option = app.add_option_function<double>(
        name, [to](const double& value) { *to = value; }, field.help);
  } else {
    option = app.add_flag(name, *std::get<bool*>(field.value), field.help);
  }
  if (field.alone != nullptr) option->expected(0, 1)->default_str(field.alone);
  option->take_last()->group(field.group);
}

void add_fields(CLI::App& app, unsigned where, RunOptions& options) {
  for (const Field& field : fields(options)) {
    if ((field.where & where) != 0) add_field(app, field);
  }
}

void add_manners(CLI::App& app, Manners& manners) {
  app.add_flag("--json", manners.json, "print one JSON object at the end");
  app.add_flag("-q,--quiet", manners.quiet, "print nothing but errors");
}

/// The arguments with those of a config file in front of the user's own.
std::vector<std::string> with_config(const std::vector<std::string>& arguments) {
  if (arguments.empty() || (arguments[0] != "fit" && arguments[0] != "text")) return arguments;
  std::vector<std::string> out = {arguments[0]}, own;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const bool joined = arguments[i].starts_with("--config=");
    if (!joined && arguments[i] != "--config") {
      own.push_back(arguments[i]);
      continue;
    }
    if (!joined && i + 1 == arguments.size()) throw Error(ErrorCode::usage, "--config FILE: which file");
    const std::string file = joined ? arguments[i].substr(9) : arguments[++i];
    if (file.empty()) throw Error(ErrorCode::usage, "--config FILE: which file");
    const Config config = read_config(file, arguments[0] == "fit" ? Field::fit : Field::text);
    RunOptions tried;
    tried.is_text = config.is_text;
    core::with_context(file, [&] { apply(config.arguments, tried); });  // so that a wrong value names the file
    out.insert(out.end(), config.arguments.begin(), config.arguments.end());
  }
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

struct Requests {
  LearnRequest learn;
  RunOptions resumed;
  std::string folder, file, data;
  GenerateOptions generate;
  std::uint64_t seed = 0;
  Manners manners;
};

CLI::App* add_learn(CLI::App& app, const char* name, const char* about, Requests& r) {
  CLI::App* command = app.add_subcommand(name, about);
  add_fields(*command, name == std::string("fit") ? Field::fit : Field::text, r.learn.options);
  command->add_option("--config", "a TOML file with options; those given here come first")
      ->type_name("FILE")
      ->group("Files");
  command->add_flag("--overwrite", r.learn.overwrite, "replace a run that lies in --out")->group("Files");
  CLI::Option* dry = command->add_flag("--dry-run", r.learn.dry_run, "print the plan: model, rates, memory, files");
  add_manners(*command, r.learn.manners);
  dry->excludes(command->get_option("--json"));
  return command;
}

CLI::App* add_generate(CLI::App& app, Requests& r) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text with a model of `train text`");
  command->add_option("checkpoint", r.file, "weights or state in the folder of a run, or the folder")->required();
  command->add_option("--prompt", r.generate.prompt, "what the text begins with");
  command->add_option("--length", r.generate.length, "characters to add")->capture_default_str();
  command
      ->add_option("--temperature", r.generate.temperature, "below 1: likely characters more often; 0: the likeliest")
      ->capture_default_str();
  command->add_option("--top-k", r.generate.top_k, "draw from the K likeliest alone; 0: from all")
      ->capture_default_str();
  command->add_option("--seed", r.seed, "of the draws")->capture_default_str();
  return command;
}

std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// What CLI11 says, with the word that was probably meant.
Error explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& arguments) {
  std::string text = error.what();
  const auto chosen = app.get_subcommands();
  const bool is_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  if (is_unknown || dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    std::vector<std::string> names;
    if (chosen.empty()) {
      for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    } else {
      names = long_names(*chosen.front());
    }
    for (const std::string& argument : arguments) {
      const std::string word = argument.substr(0, argument.find('='));
      if (std::find(names.begin(), names.end(), word) != names.end() || (!chosen.empty() && !word.starts_with("--")))
        continue;
      const std::string meant = cli::did_you_mean(word, names);
      if (!meant.empty()) return Error(ErrorCode::usage, "there is no " + core::quote(word) + meant);
    }
  }
  std::replace(text.begin(), text.end(), '\n', ' ');
  return Error(ErrorCode::usage, text + (chosen.empty() ? "; see train --help"
                                                        : "; see train " + chosen.front()->get_name() + " --help"));
}

void parse(CLI::App& app, const std::vector<std::string>& arguments) {
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  app.parse(reversed);
}

}  // namespace

void apply(const std::vector<std::string>& arguments, RunOptions& options) {
  CLI::App app;
  add_fields(app, options.is_text ? Field::text : Field::fit, options);
  try {
    parse(app, arguments);
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::usage, error.what());
  }
}

int run_command_line(int argc, const char* const* argv) {
  CLI::App app("Trains models of the zoo on data sets and texts, in folders that can be resumed", "train");
  app.footer(
      "Begin with:  train fit iris\n             train fit fashion_mnist --model lenet5 --epochs 3 --devices 2\n"
      "             train text --text /usr/share/common-licenses/GPL-3");
  app.require_subcommand(1);
  Requests r;
  CLI::App* fit = add_learn(app, "fit", "Learn classes or values from rows", r);
  CLI::App* text = app.get_subcommand(add_learn(app, "text", "Learn to continue a text", r));
  CLI::App* again = app.add_subcommand("resume", "Go on with a run that was interrupted, or make it longer");
  again->add_option("run", r.folder, "the folder of the run")->required();
  add_fields(*again, Field::resume, r.resumed);
  CLI::App* judge = app.add_subcommand("evaluate", "Loss and accuracy of weights on the rows to test on");
  judge->add_option("checkpoint", r.file, "weights or state in the folder of a run, or the folder")->required();
  judge->add_option(
      "--data", r.data,
      "other data than those of the run, with its classes and scale; all rows, unless there are test rows");
  CLI::App* write = add_generate(app, r);
  CLI::App* names = app.add_subcommand("list", "Data sets and models");
  for (CLI::App* command : {again, judge, names}) add_manners(*command, r.manners);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    arguments = with_config(arguments);
    parse(app, arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    throw explain(app, error, arguments);
  }
  r.learn.options.is_text = text->parsed();
  if (fit->parsed() || text->parsed()) return learn(r.learn);
  if (judge->parsed()) return evaluate(r.file, r.data, r.manners);
  if (write->parsed()) return generate_text(r.file, r.generate, r.seed);
  if (names->parsed()) return list(r.manners);
  return resume(r.folder, r.resumed, r.manners);
}

}  // namespace train
