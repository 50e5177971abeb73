#include "tools/ckpt/help/man_page.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/help/help.h"
#include "tools/support/suggest.h"

namespace cli {
namespace {

/// Text that roff prints as it is.
std::string escape(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out = "\\&";
  for (char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\n') {
      out += "\n.br\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string section(std::string_view title) {
  return ".SH " + std::string(title) + "\n";
}

std::string entry(std::string_view term, std::string_view text) {
  return ".TP\n\\fB" + escape(term) + "\\fR\n" + escape(text) + "\n";
}

/// The program and the commands above this one: "ckpt git".
std::string program_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr) return command.get_name();
  std::string above = program_of(*parent);
  return parent->get_parent() == nullptr ? above : above + " " + parent->get_name();
}

std::string list_options(const CLI::App& command) {
  std::string out;
  for (const CLI::Option* option : positionals_of(command)) {
    out += entry(positional_text(*option), option->get_description());
  }
  for (const CLI::Option* option : options_of(command)) out += entry(option_text(*option), option->get_description());
  return out;
}

std::string man_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : man_name(*parent) + "-" + command.get_name();
}

std::string list_commands(const CLI::App& command) {
  std::string out;
  for (const CommandGroup& group : command_groups(command)) {
    out += ".SS " + escape(group.title) + "\n";
    for (const std::string& name : group.names) {
      const CLI::App& below = *command.get_subcommand(name);
      bool top = command.get_parent() == nullptr;
      out += entry(top ? man_name(below) + "(1)" : synopsis_of(below, program_of(below)), below.get_description());
      if (!top) out += ".RS\n" + list_options(below) + ".RE\n";
    }
  }
  return out;
}

std::string exit_codes() {
  return section("EXIT STATUS") + entry("0", "done") + entry("1", "the answer is no: they differ, a finding") +
         entry("2", "usage error") + entry("3", "the input is corrupt, refused or unsupported") +
         entry("4", "input/output error, or out of memory") + entry("5", "a device is missing or failing") +
         entry("70", "a bug of ckpt");
}

std::string environment() {
  return section("ENVIRONMENT") + entry("NO_COLOR", "set to anything: no colors, unless --color always") +
         entry("TMPDIR", "folder for the copy of what comes through a pipe (FILE is '-'); default /var/tmp") +
         entry("CKPT_HDF5_HELPER", "the helper program for HDF5 files, where it is not beside ckpt") +
         entry("CKPT_RUN", "the program that runs models, where it is not beside ckpt") +
         entry("CORE_LOGICAL_DEVICES",
               "N: cuda:0 to cuda:N-1 on host memory, where there is no GPU; host:N: always; opaque:N: memory that "
               "faults when the host touches it");
}

std::string page_of(const CLI::App& command) {
  bool top = command.get_parent() == nullptr;
  std::string name = man_name(command);
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string out = ".TH " + title + " 1 \"\" \"ckpt " CKPT_VERSION "\" \"ckpt\"\n";
  out += section("NAME") + escape(name) + " \\- " + escape(summary_of(command)) + "\n";
  out += section("SYNOPSIS") + ".B " + escape(synopsis_of(command, program_of(command))) + "\n";
  out += section("DESCRIPTION") + escape(command.get_description()) + "\n";
  if (!subcommands(command).empty()) out += section("COMMANDS") + list_commands(command);
  std::string options = list_options(command);
  if (!options.empty()) out += section("OPTIONS") + options;
  out += section("EXAMPLES") + ".nf\n" + escape(examples_of(command)) + "\n.fi\n";
  if (top) out += exit_codes() + environment();
  out += section("SEE ALSO") + (top ? "\\fBckpt help COMMAND\\fR" : "\\fBckpt\\fR(1)");
  return out + "\n";
}

const CLI::App& find_command(const CLI::App& app, const std::string& name) {
  if (name.empty()) return app;
  std::vector<std::string> names;
  for (const CLI::App* command : subcommands(app)) {
    if (command->check_name(name)) return *command;
    names.push_back(command->get_name());
  }
  throw core::Error(core::ErrorCode::usage, "no command is named " + core::quote(name) + did_you_mean(name, names));
}

}  // namespace

std::string man_page(const CLI::App& app, const std::string& command) {
  return page_of(find_command(app, command));
}

std::vector<ManPage> all_man_pages(const CLI::App& app) {
  std::vector<ManPage> pages = {{man_name(app), page_of(app)}};
  for (const CLI::App* command : subcommands(app)) pages.push_back({man_name(*command), page_of(*command)});
  return pages;
}

}  // namespace cli
