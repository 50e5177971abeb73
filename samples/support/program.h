#pragma once
// What a small program has around its work: named options with defaults (--seed 0), an error text at the end instead of
// a crash, and --save FILE, which writes the tensors that the program keeps.
// Thread safety: one thread. Use: int main(int argc, char** argv) {
//   return samples::run_program(argc, argv, {.about = "Adds.", .options = {{"seed", 0, "of all random numbers"}}},
//   run);
// }

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "libcore/module/state_dict.h"

namespace samples {

struct Option {
  std::string name;                                                  ///< given as --name; a flag also as --no-name
  std::variant<bool, std::int64_t, double, std::string> value = {};  ///< unless given; its type is the option's
  std::string help = {};
  std::optional<std::int64_t> least = {};  ///< of an integer; less is a wrong command line
};

struct ProgramInfo {
  std::string about;
  std::vector<Option> options = {};
};

/// The options as given, and the tensors kept. Each accessor throws std::out_of_range for a name that is no option and
/// std::bad_variant_access for one of another type.
class Program {
 public:
  explicit Program(std::vector<Option> options);

  std::int64_t integer(const std::string& name) const { return std::get<std::int64_t>(find(name).value); }
  double number(const std::string& name) const { return std::get<double>(find(name).value); }
  bool flag(const std::string& name) const { return std::get<bool>(find(name).value); }
  const std::string& text(const std::string& name) const { return std::get<std::string>(find(name).value); }
  /// Whether it stood on the command line.
  bool was_given(const std::string& name) const;

  /// Remembers a tensor, on the CPU and without history, for --save.
  void keep(const std::string& name, const core::Tensor& tensor);

 private:
  friend int run_program(int argc, char** argv, const ProgramInfo& info, void (*body)(Program&));
  const Option& find(const std::string& name) const;

  std::vector<Option> options_;
  std::map<std::string, bool> given_;
  core::StateDict kept_;
};

/// Parses the command line, runs `body`, writes what was kept. Returns the exit status: 0, 1 after an error (printed on
/// standard error as "RuntimeError: ..."), 2 for a wrong command line.
int run_program(int argc, char** argv, const ProgramInfo& info, void (*body)(Program&));

}  // namespace samples
