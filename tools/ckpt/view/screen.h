#pragma once
// The terminal as a grid of characters, by ncurses: the only place that knows it. While a Screen lives the terminal is
// its; whatever ends the program puts the terminal back.
// Thread safety: one owner, one at a time. Use: Screen screen(true); screen.text(0, 0, 80, "net.pth", Style::title);
// screen.show(); Key key = screen.read();

#include <cstdint>
#include <string_view>

namespace cli {

enum class Style : std::uint8_t { plain, title, chosen, dim, good, bad, warning };

struct Key {
  enum class Kind : std::uint8_t {
    none,  ///< nothing came in time
    character,
    up,
    down,
    left,
    right,
    page_up,
    page_down,
    home,
    end,
    enter,
    escape,
    erase,
    resized,
    closed,  ///< nobody types any more
  };
  Kind kind = Kind::none;
  char32_t character = 0;
  bool is(char32_t wanted) const { return kind == Kind::character && character == wanted; }
};

class Screen {
 public:
  /// Errors: Error(usage) when standard input or output is no terminal, or one whose kind ($TERM) is not known;
  /// Error(unsupported) in a program that was built without ncurses.
  explicit Screen(bool colors);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  int rows() const;
  int columns() const;
  /// Whether characters beyond ASCII can be shown.
  bool has_unicode() const { return unicode_; }
  void clear();
  /// Exactly `width` columns: cut, or filled with spaces. `text` is one line without control characters; where the
  /// terminal has ASCII alone other characters become '?'.
  void text(int row, int column, int width, std::string_view text, Style style = Style::plain);
  void cursor(int row, int column);
  void show();
  /// Waits that long for a key, without a number until one comes.
  Key read(int milliseconds = -1);

 private:
  bool colors_ = false;
  bool unicode_ = false;
  int cursor_row_ = -1;
  int cursor_column_ = 0;
};

/// `text` cut to `width` columns of a terminal, wide characters counted as such.
std::string_view fitting(std::string_view text, int width, int& used);

}  // namespace cli
