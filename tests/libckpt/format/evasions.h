#pragma once
// Files that made other scanners say "clean": one or more for each of the eighteen families of
// known tricks. Each must end in a finding. Thread safety: pure functions.
// Use: for (const test::Evasion& e : test::all_evasions()) ...

#include <string>
#include <vector>

#include "tests/libckpt/format/zip_maker.h"

namespace test {

struct Evasion {
  int family;
  std::string what;
  std::string file_name;
  std::string bytes;
};

/// posix.system("true"), called.
inline std::string harmful_call(const std::string& module = "posix", const std::string& name = "system") {
  return call(symbol(module, name), {text("true")});
}
inline std::string harmful_pickle() {
  return pickle(harmful_call());
}
inline std::string harmless_pickle() {
  return pickle(pickled_dict({{text("epoch"), number(3)}}));
}
inline std::string short_text(const std::string& value) {
  return std::string("\x8c") + static_cast<char>(value.size()) + value;
}
/// Protocol 4 in one frame.
inline std::string framed(const std::string& object) {
  return "\x80\x04\x95" + raw(static_cast<std::uint64_t>(object.size() + 1)) + object + ".";
}
inline std::string npy(const std::string& descr, const std::string& data) {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (1,), }";
  header.resize(117, ' ');
  header += '\n';
  return "\x93NUMPY\x01" + std::string(1, '\0') + raw(static_cast<std::uint16_t>(header.size())) + header + data;
}
inline std::string gguf_with_template() {
  auto counted = [](const std::string& value) { return raw(static_cast<std::uint64_t>(value.size())) + value; };
  return "GGUF" + raw(std::uint32_t{3}) + raw(std::uint64_t{0}) + raw(std::uint64_t{1}) +
         counted("tokenizer.chat_template") + raw(std::uint32_t{8}) + counted("{{ x }}") + std::string(64, '\0');
}

std::vector<Evasion> all_evasions();

}  // namespace test
