#pragma once
// The words that a command takes: options, positionals, commands below it. The files of commands see CLI11 through this
// alone, as each of them would compile all of it otherwise (2 s a file, 5 s under the sanitizers).
// Thread safety: one thread. Both classes are handles of what the command line owns.
// Use: command.add_option("--top", options->top, "only the first N of them").type_name("N").from(1);

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace cli {

class OptionSpec {
 public:
  explicit OptionSpec(CLI::Option* option) : option_(option) {}

  OptionSpec& required();
  /// What --help calls its value. A positional has its own name: type_name("").
  OptionSpec& type_name(const std::string& name);
  /// May be repeated, and takes one value each time, so that a positional may stand behind it.
  OptionSpec& one_value_each();
  /// One word may hold several values.
  OptionSpec& separated_by(char separator);
  /// Not together with `other`.
  OptionSpec& excludes(const OptionSpec& other);
  /// Like from(), this shows nothing in --help; the description says it.
  OptionSpec& one_of(const std::vector<std::string>& values);
  /// Numbers from `least` on.
  OptionSpec& from(int least);
  OptionSpec& range(int least, int most);
  /// Not in --help.
  OptionSpec& hidden();

 private:
  CLI::Option* option_;
};

class CommandSpec {
 public:
  explicit CommandSpec(CLI::App& command) : command_(&command) {}

  CommandSpec add_command(const std::string& name, const std::string& description, const std::string& footer);
  /// An option ("-o,--output") or a positional ("FILE"). T: texts and numbers (arguments.cpp lists them) and, for what
  /// may be given more than once, vectors of texts.
  template <class T>
  OptionSpec add_option(const std::string& name, T& target, const std::string& description);
  /// `parse` gets the text, or all of them. What it throws is a usage error.
  OptionSpec add_option(const std::string& name, std::function<void(const std::string&)> parse,
                        const std::string& description);
  OptionSpec add_options(const std::string& name, std::function<void(const std::vector<std::string>&)> parse,
                         const std::string& description);
  OptionSpec add_flag(const std::string& name, bool& target, const std::string& description);
  /// One that was added before. REQUIRES: it was.
  OptionSpec option(const std::string& name) const;
  /// Takes options away that others of a kind have and this command has no use for. REQUIRES: they were added.
  void remove_options(const std::vector<std::string>& names);
  /// Whether the command line has it.
  bool was_given(const std::string& name) const;
  /// All that the command line has of it, as words for another program: "--top=3", "--", "resnet18". --color is left
  /// out: that is for what this program prints.
  std::vector<std::string> told() const;

  void require_subcommand();
  void alias(const std::string& name);
  /// `chosen` is called when the command line has this command, with its options in their places.
  void callback(std::function<void()> chosen);

  /// For what looks at the tree of commands: help, manual pages, completion.
  CLI::App& tree() const { return *command_; }

 private:
  CLI::App* command_;
};

}  // namespace cli
