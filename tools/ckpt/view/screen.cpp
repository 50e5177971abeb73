#include "tools/ckpt/view/screen.h"

#define NCURSES_WIDECHAR 1
#define NCURSES_NOMACROS 1
#include <curses.h>
#include <langinfo.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <string>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/sudden_end.h"
#include "tools/ckpt/view/terminal.h"

// <term.h> has it, and macros of common words such as "columns".
extern "C" char* tigetstr(NCURSES_CONST char* name);

namespace cli {
namespace {

/// What a signal handler needs to put the terminal back.
struct Before {
  termios mode;
  char restore[128];  ///< ends colors, shows the cursor, leaves the other screen
};
Before before;

void add_capability(const char* name) {
  const char* text = ::tigetstr(const_cast<char*>(name));
  if (text == nullptr || text == reinterpret_cast<char*>(-1)) return;
  const std::size_t used = std::strlen(before.restore);
  // Without the pauses ("$<5>") that no terminal of today needs.
  if (std::strchr(text, '$') == nullptr) std::strncat(before.restore, text, sizeof before.restore - used - 1);
}

void put_back() {
  [[maybe_unused]] const ssize_t ignored = ::write(STDOUT_FILENO, before.restore, std::strlen(before.restore));
  ::tcsetattr(STDOUT_FILENO, TCSANOW, &before.mode);
}

enum Pair : short { kGood = 1, kBad, kWarning, kTitle };

int attributes(Style style, bool colors) {
  auto colored = [&](short pair, int otherwise) { return colors ? static_cast<int>(COLOR_PAIR(pair)) : otherwise; };
  switch (style) {
    case Style::title:
      return static_cast<int>(A_BOLD) | colored(kTitle, 0);
    case Style::chosen:
      return static_cast<int>(A_REVERSE);
    case Style::dim:
      return static_cast<int>(A_DIM);
    case Style::good:
      return colored(kGood, 0);
    case Style::bad:
      return colored(kBad, static_cast<int>(A_BOLD));
    case Style::warning:
      return colored(kWarning, static_cast<int>(A_BOLD));
    case Style::plain:
      break;
  }
  return static_cast<int>(A_NORMAL);
}

void choose_colors() {
  ::start_color();
  ::use_default_colors();
  ::init_pair(kGood, COLOR_GREEN, -1);
  ::init_pair(kBad, COLOR_RED, -1);
  ::init_pair(kWarning, COLOR_YELLOW, -1);
  ::init_pair(kTitle, COLOR_CYAN, -1);
}

Key::Kind kind_of(int code) {
  switch (code) {
    case KEY_UP:
      return Key::Kind::up;
    case KEY_DOWN:
      return Key::Kind::down;
    case KEY_LEFT:
      return Key::Kind::left;
    case KEY_RIGHT:
      return Key::Kind::right;
    case KEY_PPAGE:
      return Key::Kind::page_up;
    case KEY_NPAGE:
      return Key::Kind::page_down;
    case KEY_HOME:
      return Key::Kind::home;
    case KEY_END:
      return Key::Kind::end;
    case KEY_ENTER:
      return Key::Kind::enter;
    case KEY_BACKSPACE:
      return Key::Kind::erase;
    case KEY_RESIZE:
      return Key::Kind::resized;
    default:
      return Key::Kind::none;
  }
}

Key character_key(int code) {
  if (code == '\r' || code == '\n') return {Key::Kind::enter};
  if (code == 27) return {Key::Kind::escape};
  if (code == 8 || code == 127) return {Key::Kind::erase};
  if (code == 3) return {Key::Kind::closed};  // Ctrl-C, which a terminal in raw mode passes on
  if (code == 6) return {Key::Kind::page_down};
  if (code == 2) return {Key::Kind::page_up};
  return {Key::Kind::character, static_cast<char32_t>(code)};
}

/// The character of UTF-8 that begins with `first`. get_wch() would wait for more behind bytes that are none, and take
/// the next keys for it.
Key utf8_key(int first) {
  const int more = first >= 0xf5 ? 0 : first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc2 ? 1 : 0;
  if (more == 0) return {};
  auto character = static_cast<char32_t>(first & (0x3f >> more));
  ::timeout(100);
  for (int i = 0; i < more; ++i) {
    const int next = ::getch();
    if (next < 0x80 || next > 0xbf) {
      if (next != ERR) ::ungetch(next);
      return {};
    }
    character = character << 6 | static_cast<char32_t>(next & 0x3f);
  }
  return {Key::Kind::character, character};
}

/// Of a terminal with one byte a character.
Key byte_key(int byte) {
  const wint_t character = std::btowc(byte);
  return character == WEOF ? Key{} : Key{Key::Kind::character, static_cast<char32_t>(character)};
}

}  // namespace

Screen::Screen(bool colors) {
  require_terminal();
  std::setlocale(LC_CTYPE, "");
  unicode_ = std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0;
  ::tcgetattr(STDOUT_FILENO, &before.mode);
  if (::newterm(nullptr, stdout, stdin) == nullptr) {
    const char* kind = std::getenv("TERM");
    throw core::Error(core::ErrorCode::usage, "the terminal " + core::quote(kind == nullptr ? "" : kind) +
                                                  " is not known here; set TERM, for example to xterm-256color");
  }
  before.restore[0] = '\0';
  for (const char* name : {"sgr0", "cnorm", "rmkx", "rmcup"}) add_capability(name);
  on_sudden_end(put_back);
  ::raw();
  ::noecho();
  ::nonl();
  ::keypad(stdscr, TRUE);
  ::set_escdelay(25);
  ::curs_set(0);
  colors_ = colors && ::has_colors();
  if (colors_) choose_colors();
}

Screen::~Screen() {
  ::endwin();
  on_sudden_end(nullptr);
}

int Screen::rows() const {
  return getmaxy(stdscr);
}

int Screen::columns() const {
  return getmaxx(stdscr);
}

void Screen::clear() {
  ::erase();
  cursor_row_ = -1;
}

void Screen::text(int row, int column, int width, std::string_view text, Style style) {
  width = std::min(width, columns() - column);
  if (row < 0 || row >= rows() || column < 0 || width <= 0) return;
  std::string ascii;
  if (!unicode_) {
    for (char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x80) ascii += c;
      if (byte >= 0xc0) ascii += '?';
    }
    text = ascii;
  }
  int used = 0;
  const std::string_view shown = fitting(text, width, used);
  ::attrset(static_cast<attr_t>(attributes(style, colors_)));
  ::mvaddnstr(row, column, shown.data(), static_cast<int>(shown.size()));
  // The last cell of the screen would scroll it in some terminals; a space there is not needed.
  const std::string rest(static_cast<std::size_t>(std::max(0, width - used)), ' ');
  ::addnstr(rest.data(), static_cast<int>(rest.size()));
  ::attrset(A_NORMAL);
}

void Screen::cursor(int row, int column) {
  cursor_row_ = row;
  cursor_column_ = column;
}

void Screen::show() {
  ::curs_set(cursor_row_ >= 0 ? 1 : 0);
  if (cursor_row_ >= 0) ::move(cursor_row_, std::min(cursor_column_, columns() - 1));
  ::refresh();
}

Key Screen::read(int milliseconds) {
  constexpr int kAgain = 250;  // a change of the size just before the wait does not end it: it is found then
  for (bool has_input = false;;) {
    ::timeout(milliseconds >= 0 ? milliseconds : has_input ? 0 : kAgain);
    const int code = ::getch();
    if (code > 0xff) return {kind_of(code)};
    if (code >= 0x80) return unicode_ ? utf8_key(code) : byte_key(code);
    if (code != ERR) return character_key(code);
    if (milliseconds >= 0) return {};
    // A terminal that is gone always has something to read, and nothing comes.
    if (has_input) return {Key::Kind::closed};
    pollfd input{STDIN_FILENO, POLLIN, 0};
    has_input = ::poll(&input, 1, 0) > 0;
  }
}

std::string_view fitting(std::string_view text, int width, int& used) {
  std::mbstate_t state{};
  std::size_t at = 0;
  used = 0;
  while (at < text.size()) {
    wchar_t c = 0;
    const std::size_t length = std::mbrtowc(&c, text.data() + at, text.size() - at, &state);
    if (length == 0 || length > text.size()) break;
    const int columns = std::max(0, ::wcwidth(c));
    if (used + columns > width) break;
    used += columns;
    at += length;
  }
  return text.substr(0, at);
}

}  // namespace cli
