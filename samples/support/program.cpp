#include "samples/support/program.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <new>
#include <stdexcept>

#include "libckpt/bridge/module_state.h"
#include "libcore/base/error.h"

namespace samples {

Program::Program(std::vector<Option> options) : options_(std::move(options)) {}

const Option& Program::find(const std::string& name) const {
  for (const Option& option : options_) {
    if (option.name == name) return option;
  }
  throw std::out_of_range("no option is named " + name);
}

bool Program::was_given(const std::string& name) const {
  auto found = given_.find(name);
  return found != given_.end() && found->second;
}

void Program::keep(const std::string& name, const core::Tensor& tensor) {
  kept_.set(name, tensor.detach().cpu());
}

namespace {

void add_option(CLI::App& app, Option& option) {
  if (bool* flag = std::get_if<bool>(&option.value)) {
    app.add_flag("--" + option.name + ",!--no-" + option.name, *flag, option.help);
    return;
  }
  std::visit(
      [&](auto& value) {
        if constexpr (!std::is_same_v<decltype(value), bool&>) {
          app.add_option("--" + option.name, value, option.help)->capture_default_str();
        }
      },
      option.value);
}

/// "--n is at least 1, not 0", or "".
std::string too_small(const std::vector<Option>& options) {
  for (const Option& option : options) {
    const auto* value = std::get_if<std::int64_t>(&option.value);
    if (value == nullptr || !option.least || *value >= *option.least) continue;
    return "--" + option.name + " is at least " + std::to_string(*option.least) + ", not " + std::to_string(*value);
  }
  return "";
}

/// What std::printf and std::cout have written, so that a full disk does not pass for success.
void check_output() {
  if (std::fflush(stdout) == 0 && std::cout.flush()) return;
  throw core::Error(core::ErrorCode::io, std::string("standard output: ") + std::strerror(errno));
}

}  // namespace

int run_program(int argc, char** argv, const ProgramInfo& info, void (*body)(Program&)) {
  Program program(info.options);
  CLI::App app(info.about);
  for (Option& option : program.options_) add_option(app, option);
  std::string save;
  app.add_option("--save", save, "write the tensors of the run here (.safetensors, .npz, ...)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const std::string wrong = too_small(program.options_); !wrong.empty()) {
    std::cerr << wrong << '\n';
    return 2;
  }
  for (const Option& option : program.options_) program.given_[option.name] = app.count("--" + option.name) > 0;
  try {
    body(program);
    if (!save.empty()) ckpt::save(program.kept_, save);
    check_output();
  } catch (const core::Error& error) {
    std::cout.flush();
    std::cerr << core::python_name(error.code()) << ": " << error.what() << '\n';
    return 1;
  } catch (const std::bad_alloc&) {
    std::cout.flush();
    std::cerr << "MemoryError: out of memory\n";
    return 1;
  }
  return 0;
}

}  // namespace samples
