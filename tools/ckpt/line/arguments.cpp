#include "tools/ckpt/line/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace cli {
namespace {

/// A check of which --help shows nothing; `needs` is what the text is wanted to be.
CLI::Validator hidden_check(std::function<bool(const std::string&)> fits, const std::string& needs) {
  return CLI::Validator(
      [fits = std::move(fits), needs](const std::string& text) {
        return fits(text) ? std::string() : "needs " + needs + ", and got " + core::quote(text);
      },
      "");
}

template <class T>
bool is_number(const std::string& text) {
  T value{};
  if (std::is_unsigned_v<T> && text.starts_with('-')) return false;  // CLI11 would count back from the largest
  return CLI::detail::lexical_cast(text, value);
}

std::function<bool(const std::string&)> within(double least, double most) {
  return [least, most](const std::string& text) {
    double value = 0;
    return CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
  };
}

/// Errors as those of CLI11's own checks: "--codec: 'x' is no codec".
template <class Texts>
std::function<void(const Texts&)> with_name(const std::string& option, std::function<void(const Texts&)> parse) {
  return [option, parse = std::move(parse)](const Texts& texts) {
    try {
      parse(texts);
    } catch (const core::Error& error) {
      throw CLI::ValidationError(option, error.what());
    }
  };
}

}  // namespace

OptionSpec& OptionSpec::required() {
  option_->required();
  return *this;
}

OptionSpec& OptionSpec::type_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

OptionSpec& OptionSpec::one_value_each() {
  option_->allow_extra_args(false);
  return *this;
}

OptionSpec& OptionSpec::separated_by(char separator) {
  option_->delimiter(separator);
  return *this;
}

OptionSpec& OptionSpec::excludes(const OptionSpec& other) {
  option_->excludes(other.option_);
  return *this;
}

OptionSpec& OptionSpec::one_of(const std::vector<std::string>& values) {
  auto known = [values](const std::string& text) {
    return std::find(values.begin(), values.end(), text) != values.end();
  };
  option_->check(hidden_check(known, "one of " + core::join(values, ", ")));
  return *this;
}

OptionSpec& OptionSpec::from(int least) {
  option_->check(hidden_check(within(least, HUGE_VAL), "a number from " + std::to_string(least) + " on"));
  return *this;
}

OptionSpec& OptionSpec::range(int least, int most) {
  std::string needs = "a number from " + std::to_string(least) + " to " + std::to_string(most);
  option_->check(hidden_check(within(least, most), needs));
  return *this;
}

OptionSpec& OptionSpec::hidden() {
  option_->group("");
  return *this;
}

CommandSpec CommandSpec::add_command(const std::string& name, const std::string& description,
                                     const std::string& footer) {
  CLI::App* command = command_->add_subcommand(name, description);
  command->footer(footer);
  return CommandSpec(*command);
}

template <class T>
OptionSpec CommandSpec::add_option(const std::string& name, T& target, const std::string& description) {
  CLI::Option* option = command_->add_option(name, target, description);
  if constexpr (std::is_floating_point_v<T>) {
    option->check(hidden_check(is_number<T>, "a number"));
  } else if constexpr (std::is_arithmetic_v<T>) {
    option->check(hidden_check(is_number<T>, std::is_unsigned_v<T> ? "a whole number from 0 on" : "a whole number"));
  }
  return OptionSpec(option);
}

template OptionSpec CommandSpec::add_option(const std::string&, std::string&, const std::string&);
template OptionSpec CommandSpec::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template OptionSpec CommandSpec::add_option(const std::string&, std::int64_t&, const std::string&);
template OptionSpec CommandSpec::add_option(const std::string&, std::uint64_t&, const std::string&);
template OptionSpec CommandSpec::add_option(const std::string&, std::uint32_t&, const std::string&);
template OptionSpec CommandSpec::add_option(const std::string&, double&, const std::string&);

OptionSpec CommandSpec::add_option(const std::string& name, std::function<void(const std::string&)> parse,
                                   const std::string& description) {
  return OptionSpec(command_->add_option_function<std::string>(name, with_name(name, std::move(parse)), description));
}

OptionSpec CommandSpec::add_options(const std::string& name, std::function<void(const std::vector<std::string>&)> parse,
                                    const std::string& description) {
  return OptionSpec(
      command_->add_option_function<std::vector<std::string>>(name, with_name(name, std::move(parse)), description));
}

OptionSpec CommandSpec::add_flag(const std::string& name, bool& target, const std::string& description) {
  return OptionSpec(command_->add_flag(name, target, description));
}

OptionSpec CommandSpec::option(const std::string& name) const {
  return OptionSpec(command_->get_option(name));
}

void CommandSpec::remove_options(const std::vector<std::string>& names) {
  for (const std::string& name : names) command_->remove_option(command_->get_option(name));
}

bool CommandSpec::was_given(const std::string& name) const {
  return command_->get_option(name)->count() > 0;
}

std::vector<std::string> CommandSpec::told() const {
  std::vector<std::string> words;
  std::vector<std::string> positionals;
  for (const CLI::Option* option : command_->get_options()) {
    if (option->count() == 0 || option->check_lname("color")) continue;
    if (option->get_positional()) {
      for (const std::string& value : option->results()) positionals.push_back(value);
    } else if (option->get_items_expected_max() == 0) {
      words.push_back("--" + option->get_lnames().front());
    } else {
      for (const std::string& value : option->results()) {
        const std::string name = "--" + option->get_lnames().front();
        words.push_back(value.empty() ? name : name + "=" + value);
        if (value.empty()) words.emplace_back();  // behind "--name=" the word that follows would be the value
      }
    }
  }
  words.emplace_back("--");
  words.insert(words.end(), positionals.begin(), positionals.end());
  return words;
}

void CommandSpec::require_subcommand() {
  command_->require_subcommand(1);
}

void CommandSpec::alias(const std::string& name) {
  command_->alias(name);
}

void CommandSpec::callback(std::function<void()> chosen) {
  command_->callback(std::move(chosen));
}

}  // namespace cli
