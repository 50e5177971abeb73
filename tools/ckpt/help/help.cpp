#include "tools/ckpt/help/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/line/command_guess.h"

namespace cli {
namespace {

constexpr std::size_t kLeftColumn = 28;
constexpr std::size_t kRightColumn = 52;  // together what a terminal shows without breaking lines itself

struct GroupTitle {
  std::string_view group;
  const char* title;
};

constexpr GroupTitle kGroups[] = {
    {"look", "Look at a checkpoint"},     {"keys", "Change keys, tags and values"},
    {"shape", "Change format and shape"}, {"safety", "Safety"},
    {"models", "Models and devices"},     {"itself", "The tool itself"},
};

struct ListedCommand {
  std::string_view group, name;
};

constexpr ListedCommand kCommands[] = {
#define COMMAND(group, name) {#group, #name},
#include "tools/ckpt/commands/command_list.inc"
#undef COMMAND
};

class HelpStyle final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    // CLI11 puts the command behind the program; so does synopsis_of().
    if (app->get_parent() != nullptr) name.resize(std::min(name.rfind(' '), name.size()));
    return "Usage: " + synopsis_of(*app, name) + "\n";
  }
  std::string make_description(const CLI::App* app) const override {
    std::string text = app->get_footer().empty() ? "" : app->get_footer() + "\n\n";
    return text + wrap(app->get_description(), kLeftColumn + kRightColumn) + "\n\n";
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrap(option->get_description(), kRightColumn);
  }
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode) const override {
    std::string out;
    for (const CommandGroup& group : command_groups(*app)) {
      out += "\n" + group.title + ":\n";
      for (const std::string& name : group.names) out += make_subcommand(app->get_subcommand(name));
    }
    return out;
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::stringstream out;
    CLI::detail::format_help(out, command->get_display_name(true), wrap(summary_of(*command), kRightColumn),
                             kLeftColumn);
    return out.str();
  }
  std::string make_footer(const CLI::App*) const override { return ""; }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_size() == 0 || option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }
};

}  // namespace

std::vector<const CLI::App*> subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::string help_of(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  std::string above;
  for (const std::string& word : words) {
    const CLI::App* below = nullptr;
    for (const CLI::App* command : subcommands(*at)) {
      if (command->check_name(word)) below = command;
    }
    if (below == nullptr) {
      throw core::Error(core::ErrorCode::usage,
                        "no command is named " + core::quote(word) + did_you_mean_command(*at, word));
    }
    above += (above.empty() ? "" : " ") + at->get_name();
    at = below;
  }
  above += (above.empty() ? "" : " ") + at->get_name();
  return at->get_formatter()->make_help(at, above, CLI::AppFormatMode::Normal);
}

std::vector<CommandGroup> command_groups(const CLI::App& app) {
  std::vector<const CLI::App*> left = subcommands(app);
  std::vector<CommandGroup> groups;
  auto take = [&](CommandGroup& group, std::string_view name) {
    auto found = std::find_if(left.begin(), left.end(), [&](const CLI::App* c) { return c->get_name() == name; });
    if (found == left.end()) return;
    group.names.emplace_back(name);
    left.erase(found);
  };
  if (app.get_parent() == nullptr) {
    for (const GroupTitle& titled : kGroups) {
      CommandGroup group{titled.title, {}};
      for (const ListedCommand& listed : kCommands) {
        std::string name(listed.name);
        std::replace(name.begin(), name.end(), '_', '-');
        if (listed.group == titled.group) take(group, name);
      }
      if (!group.names.empty()) groups.push_back(std::move(group));
    }
  }
  CommandGroup rest{groups.empty() ? "Commands" : "More", {}};
  for (const CLI::App* command : left) rest.names.push_back(command->get_name());
  if (!rest.names.empty()) groups.push_back(std::move(rest));
  return groups;
}

std::string examples_of(const CLI::App& command) {
  std::string text = command.get_footer();
  std::size_t label = text.find('\n');
  return label == std::string::npos ? "" : text.substr(label + 1);
}

std::string summary_of(const CLI::App& command) {
  std::string text = command.get_description();
  std::size_t end = text.size();
  for (std::string_view stop : {". ", "; ", ": ", " ("}) end = std::min(end, text.find(stop));
  text.resize(end);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* o) { return o->nonpositional() && !o->get_group().empty(); });
}

std::vector<const CLI::Option*> positionals_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* o) { return o->get_positional() && !o->get_group().empty(); });
}

std::string option_text(const CLI::Option& option) {
  bool plain = option.get_type_size() == 0 || option.get_type_name().empty();
  return option.get_name(false, true) + (plain ? "" : " " + option.get_type_name());
}

std::string positional_text(const CLI::Option& option) {
  std::string text = option.get_name(true) + (option.get_expected_max() > 1 ? "..." : "");
  return option.get_required() ? text : "[" + text + "]";
}

std::string synopsis_of(const CLI::App& command, const std::string& program) {
  std::string text = program;
  if (command.get_parent() != nullptr) text += (program.empty() ? "" : " ") + command.get_name();
  if (!options_of(command).empty()) text += " [OPTIONS]";
  for (const CLI::Option* option : positionals_of(command)) text += " " + positional_text(*option);
  bool needs = command.get_require_subcommand_min() > 0;
  if (!subcommands(command).empty()) text += needs ? " COMMAND" : " [COMMAND]";
  return text;
}

std::string wrap(const std::string& text, std::size_t width) {
  std::string out;
  std::size_t used = 0;
  for (std::string_view word : core::split(text, ' ')) {
    bool breaks = used > 0 && used + 1 + word.size() > width;
    if (used > 0) out += breaks ? '\n' : ' ';
    out += word;
    used = breaks ? word.size() : used + (used > 0 ? 1 : 0) + word.size();
  }
  return out;
}

void set_help_style(CLI::App& app) {
  auto style = std::make_shared<HelpStyle>();
  style->column_width(kLeftColumn);
  app.formatter(style);
}

}  // namespace cli
