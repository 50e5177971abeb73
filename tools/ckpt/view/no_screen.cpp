// A Screen for builds without ncurses.

#include "libcore/base/error.h"
#include "tools/ckpt/view/screen.h"

namespace cli {

Screen::Screen(bool) {
  throw core::Error(
      core::ErrorCode::unsupported,
      "this ckpt was built without ncurses; install libncurses-dev and build it again, or use 'ckpt tree' "
      "and 'ckpt diff'");
}
Screen::~Screen() = default;
int Screen::rows() const {
  return 0;
}
int Screen::columns() const {
  return 0;
}
void Screen::clear() {}
void Screen::text(int, int, int, std::string_view, Style) {}
void Screen::cursor(int, int) {}
void Screen::show() {}
Key Screen::read(int) {
  return {Key::Kind::closed};
}

}  // namespace cli
