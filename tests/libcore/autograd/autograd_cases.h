#pragma once
// The programs of autograd.json in C++, by id; each writes what the Python program prints.
// Use: AutogradCases cases; add_graph_cases(cases); cases.at("accumulate")(std::cout);

#include <functional>
#include <iosfwd>
#include <map>
#include <string>

#include "libcore/ops/reduce.h"
#include "libcore/tensor/print.h"
#include "libcore/tensor/random.h"

namespace test {

using AutogradCases = std::map<std::string, std::function<void(std::ostream&)>>;

/// The leaf that most programs begin with.
inline core::Tensor leaf() {
  return core::tensor({-1.46, 1.39, 1.06}, {.requires_grad = true});
}
/// As Python prints it.
inline const char* truth(bool value) {
  return value ? "True" : "False";
}
inline void print_grad(std::ostream& out, const core::Tensor& x) {
  if (x.grad().defined()) {
    out << x.grad() << '\n';
  } else {
    out << "None\n";
  }
}

void add_graph_cases(AutogradCases& cases);
void add_kink_cases(AutogradCases& cases);
void add_module_cases(AutogradCases& cases);

}  // namespace test
