#include "libcore/base/warning.h"

#include <cstdio>
#include <mutex>
#include <utility>

namespace core {
namespace {

struct State {
  std::mutex mutex;
  WarningHandler handler = [](const std::string& text) {
    const std::string line = "warning: " + text + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);  // one write, so that lines of several threads stay whole
  };
};

State& state() {
  static auto* const made = new State;  // never destroyed: warnings may come from static destructors
  return *made;
}

}  // namespace

WarningHandler set_warning_handler(WarningHandler handler) {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().handler, std::move(handler));
}

void warn(const std::string& text) {
  WarningHandler handler;
  {
    const std::lock_guard lock(state().mutex);
    handler = state().handler;
  }
  if (handler) handler(text);
}

}  // namespace core
