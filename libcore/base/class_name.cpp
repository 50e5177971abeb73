#include "libcore/base/class_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace core {
namespace {

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status), std::free);
  return status == 0 ? std::string(text.get()) : std::string(name);
}

}  // namespace

std::string short_class_name(const std::type_info& type) {
  const std::string full = demangled(type.name());
  int depth = 0;
  std::size_t end = full.size();
  for (std::size_t i = full.size(); i-- > 0;) {
    const char c = full[i];
    if (c == '>' || c == ')') ++depth;
    if (c == '<' || c == '(') --depth;
    if (depth == 0 && c == '<') end = i;
    if (depth == 0 && c == ':') return full.substr(i + 1, end - i - 1);
  }
  return full.substr(0, end);
}

}  // namespace core
