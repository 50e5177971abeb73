#pragma once
// Python's print, repr and pprint for what the samples show. A line is written whole, so that lines of several threads
// do not mix. Thread safety: all functions. Use: samples::print("Outside: input size", x.sizes());

#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "libcore/base/device.h"
#include "libcore/base/shape.h"

namespace samples {

/// A value as Python's repr shows it; a list or tuple also as its parts, so that it can be broken into lines.
struct Repr {
  std::string text = {};  ///< of a value without parts
  char open = 0;          ///< '(' or '[' of one with parts
  std::vector<Repr> parts = {};

  /// On one line.
  std::string str() const;
};

Repr repr(const std::string& text);
Repr repr(core::Device device);
template <class T>
Repr repr(const std::vector<T>& list) {
  Repr made{.open = '['};
  for (const T& item : list) made.parts.push_back(repr(item));
  return made;
}
template <class... T>
Repr repr(const std::tuple<T...>& values) {
  return std::apply([](const T&... value) { return Repr{.open = '(', .parts = {repr(value)...}}; }, values);
}

/// Prints the value in lines of at most 80 characters, as Python's pprint.
void pprint(const Repr& value);

/// As Python's str().
template <class T>
std::string str(const T& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}
inline std::string str(bool value) {
  return value ? "True" : "False";
}
inline std::string str(const Repr& value) {
  return value.str();
}
template <class T>
std::string str(const std::vector<T>& list) {
  return repr(list).str();
}

void print_line(std::string line);

/// The values with spaces between them, and the end of the line.
template <class... T>
void print(const T&... values) {
  std::string line;
  bool is_first = true;
  ((line += (is_first ? "" : " ") + str(values), is_first = false), ...);
  print_line(std::move(line));
}

}  // namespace samples
