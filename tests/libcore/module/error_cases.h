#pragma once
// The C++ equivalents of the programs of errors.json, by id. Sizes and names are taken from the program's text, so that
// a set made with other numbers runs too. Use: auto found = test::error_cases().find(id);
// found->second(test::ErrorProgram(text));

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace test {

/// The numbers and the quoted strings of a Python program, in order.
class ErrorProgram {
 public:
  explicit ErrorProgram(const std::string& program);
  /// Error of the test when there are fewer.
  std::int64_t n(std::size_t i) const { return static_cast<std::int64_t>(numbers_.at(i)); }
  double x(std::size_t i) const { return numbers_.at(i); }
  const std::string& s(std::size_t i) const { return strings_.at(i); }

 private:
  std::vector<double> numbers_;
  std::vector<std::string> strings_;
};

using ErrorCase = void (*)(const ErrorProgram&);
using ErrorCases = std::map<std::string, ErrorCase>;

void add_tensor_error_cases(ErrorCases& cases);
void add_autograd_error_cases(ErrorCases& cases);
void add_module_error_cases(ErrorCases& cases);
void add_nn_error_cases(ErrorCases& cases);
void add_layer_error_cases(ErrorCases& cases);
void add_training_error_cases(ErrorCases& cases);
void add_more_error_cases(ErrorCases& cases);

/// Why a situation has no equivalent here, by id: a few words. Ids of `error_cases` are not in it.
const std::map<std::string, std::string>& situations_without_equivalent();

}  // namespace test
