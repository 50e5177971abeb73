#include <ostream>
#include <vector>

#include "libcore/base/text.h"
#include "libcore/module/module_base.h"
#include "libcore/module/parametrize_list.h"
#include "libcore/module/print.h"
#include "libcore/module/walk.h"

namespace core {
namespace detail {

std::string add_indent(const std::string& text) {
  std::string result;
  for (const std::string_view line : split(text, '\n')) {
    const bool blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (!result.empty()) result += blank ? "\n" : "\n  ";
    if (result.empty() || !blank) result += line;
  }
  return result;
}

std::string framed(const std::string& name, const std::vector<std::string>& lines) {
  std::string text = name + "(";
  for (const std::string& line : lines) text += "\n  " + line;
  return text + (lines.empty() ? ")" : "\n)");
}

std::string shown_class_name(const Module& module) {
  const ReparametrizedPtr& all = walkable(module).reparametrized();
  const bool parametrized = all && !all->lists.lists.empty();
  return (parametrized ? "Parametrized" : "") + module.class_name();
}

}  // namespace detail

std::string Module::str() const {
  const std::string extra = extra_repr();
  const Members own(detail::walkable(*this));
  const bool one_line = extra.find('\n') == std::string::npos;
  if (!extra.empty() && one_line && own.children().empty()) return detail::shown_class_name(*this) + "(" + extra + ")";
  std::vector<std::string> lines;
  if (!extra.empty()) {
    for (const std::string_view line : split(extra, '\n')) lines.emplace_back(line);
  }
  for (const ChildMember& child : own.children()) {
    const std::string text = child.module ? child.module->str() : "None";
    lines.push_back("(" + child.name + "): " + detail::add_indent(text));
  }
  return detail::framed(detail::shown_class_name(*this), lines);
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  return out << module.str();
}

}  // namespace core
