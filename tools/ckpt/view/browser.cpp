#include "tools/ckpt/view/browser.h"

#include <algorithm>
#include <cmath>

#include "libckpt/analyze/stats.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/output/chart.h"
#include "tools/ckpt/output/visible_text.h"

namespace cli {
namespace {

constexpr int kSideFrom = 120;  // columns, from which the facts of a tensor stand beside the tree
constexpr int kSideWidth = 46;
constexpr std::size_t kMostName = 10'000;

std::string padded(std::string text, std::size_t width) {
  const std::size_t used = display_width(text);
  if (used < width) text.insert(0, width - used, ' ');
  return text;
}

std::string cut(const std::string& text, std::size_t width) {
  return display_width(text) <= width ? text : shorten_middle(text, width, "..");
}

std::string mark_of(const TensorTree& tree, const TensorTree::Node& node) {
  if (node.tensor < 0) return node.different > 0 ? "*" : " ";
  switch (tree.tensors()[static_cast<std::size_t>(node.tensor)].sameness) {
    case Sameness::unknown:
      return " ";
    case Sameness::equal:
      return "=";
    case Sameness::other_values:
      return "~";
    case Sameness::other_form:
      return "!";
    case Sameness::only_first:
      return "-";
    case Sameness::only_second:
      return "+";
  }
  return " ";
}

Style style_of(const std::string& mark, bool is_chosen) {
  if (is_chosen) return Style::chosen;
  if (mark == "+" || mark == "=") return Style::good;
  if (mark == "-") return Style::bad;
  return mark == " " ? Style::plain : Style::warning;
}

const std::vector<std::string>& help_lines() {
  static const std::vector<std::string> lines = {
      "Moving",
      "  up, down, k, j         one row",
      "  page up, page down     one page (also Ctrl-B, Ctrl-F)",
      "  home, end, g, G        first and last row",
      "  right, l, space        open a module; of a tensor its details",
      "  left, h                fold it, or go to the module above",
      "  O, F                   open all, fold all",
      "  /, n, N                search for part of a name; next, previous",
      "  s                      order: file, name, size, norm (which reads all values)",
      "",
      "One tensor",
      "  enter                  values, range and histogram; there: i a slice, v reads a large one whole",
      "",
      "Two files (ckpt view A B): - only in A, + only in B, ! other shape or type, ~ other values, = equal,",
      "                           * something in the module differs",
      "  d                      compare the values of the row, or of all below it",
      "  f                      show only what differs",
      "",
      "Edits, which are collected and made only when you say so",
      "  r                      rename the row's key, or all keys below it",
      "  c                      cast all tensors to another type",
      "  m                      tag all tensors with another device",
      "  x                      drop the row",
      "  u                      take the last one back",
      "  e                      show what they would do; there: w writes",
      "",
      "  ?                      this help",
      "  q                      leave",
  };
  return lines;
}

}  // namespace

Browser::Browser(Screen& screen, const BrowsedFiles& files, TensorTree tree, unsigned threads)
    : screen_(screen), files_(files), tree_(std::move(tree)), threads_(threads), message_(one_line(files.warning)) {}

std::optional<std::string> Browser::run() {
  while (!closed_) {
    draw();
    const Key key = screen_.read();
    message_.clear();
    if (key.kind == Key::Kind::closed) break;
    if (!handle(key)) break;
  }
  return output_;
}

void Browser::go_to(std::size_t row) {
  row_ = tree_.rows().empty() ? 0 : std::min(row, tree_.rows().size() - 1);
}

void Browser::draw() {
  const auto shown = static_cast<std::size_t>(height());
  go_to(row_);
  if (row_ < top_) top_ = row_;
  if (row_ >= top_ + shown) top_ = row_ - shown + 1;
  if (top_ + shown > tree_.rows().size()) top_ = tree_.rows().size() > shown ? tree_.rows().size() - shown : 0;
  screen_.clear();
  const int columns = screen_.columns();
  const TensorTree::Node& all = tree_.node(0);
  std::string counts = ": " + count_of(all.tensors, "tensor") + ", " + core::format_size(all.bytes);
  if (tree_.shows_differences()) counts += ", differences only";
  std::string files = core::printable(files_.first);
  if (!files_.second.empty()) files += " beside " + core::printable(files_.second);
  const auto room = static_cast<std::size_t>(std::max(10, columns - static_cast<int>(counts.size())));
  screen_.text(0, 0, columns, cut(files, room) + counts, Style::title);
  const bool has_side = columns >= kSideFrom;
  const int width = has_side ? columns - kSideWidth : columns;
  for (std::size_t i = 0; i < shown && top_ + i < tree_.rows().size(); ++i) {
    draw_row(static_cast<int>(i) + 1, top_ + i, width);
  }
  if (has_side) draw_side(width + 2, kSideWidth - 2);
  draw_foot();
  screen_.show();
}

void Browser::draw_row(int row, std::size_t index, int width) {
  const TensorTree::Node& node = tree_.node(tree_.rows()[index]);
  std::string shape, dtype, norm;
  if (node.tensor >= 0) {
    const ViewTensor& tensor = tree_.tensors()[static_cast<std::size_t>(node.tensor)];
    shape = core::to_list(ckpt::value_shape(tensor.entry()));
    dtype = core::printable(ckpt::type_name(tensor.entry()));
    if (tensor.norm) norm = short_number(*tensor.norm);
  } else {
    shape = count_of(node.tensors, "tensor");
    if (node.squares > 0) norm = short_number(std::sqrt(node.squares));
  }
  std::string right =
      padded(cut(shape, 18), 18) + "  " + padded(cut(dtype, 10), 10) + "  " + padded(core::format_size(node.bytes), 8);
  if (tree_.order() == ViewOrder::norm) right += "  " + padded(norm, 9);
  const std::string mark = mark_of(tree_, node);
  const std::string fold = !node.is_module()       ? "  "
                           : screen_.has_unicode() ? (node.is_open ? "\u25be " : "\u25b8 ")
                                                   : (node.is_open ? "v " : "> ");
  const std::size_t room = static_cast<std::size_t>(width) > right.size() + 4
                               ? static_cast<std::size_t>(width) - right.size() - 2
                               : static_cast<std::size_t>(width);
  const std::size_t indent = std::min<std::size_t>(2 * (node.depth - 1), room / 2);
  std::string left = mark + std::string(indent, ' ') + fold + core::printable(node.label);
  left = cut(left, room);
  const Style style = style_of(mark, index == row_);
  screen_.text(row, 0, static_cast<int>(room), left, style);
  screen_.text(row, static_cast<int>(room), width - static_cast<int>(room), right, style);
}

void Browser::draw_side(int column, int width) {
  if (!has_rows()) return;
  const TensorTree::Node& node = tree_.node(chosen());
  std::vector<std::string> lines;
  if (node.tensor >= 0) {
    lines = fact_lines(tree_.tensors()[static_cast<std::size_t>(node.tensor)]);
    lines.emplace_back("enter shows values");
  } else {
    lines = {core::printable(tree_.full_name(chosen())), count_of(node.tensors, "tensor"),
             core::format_size(node.bytes)};
  }
  for (std::size_t i = 0; i < lines.size() && static_cast<int>(i) < height(); ++i) {
    screen_.text(static_cast<int>(i) + 1, column, width, cut(lines[i], static_cast<std::size_t>(width)),
                 i == 0 ? Style::title : Style::plain);
  }
}

void Browser::draw_foot() {
  const int last = screen_.rows() - 1;
  std::string place = has_rows() ? core::printable(tree_.full_name(chosen())) : "nothing to show";
  if (tree_.order() != ViewOrder::file) place += "   by " + std::string(name(tree_.order()));
  if (!queue_.empty()) place += "   " + count_of(queue_.size(), "edit") + " waiting (e shows them)";
  const auto width = static_cast<std::size_t>(screen_.columns());
  screen_.text(last - 1, 0, screen_.columns(), cut(place, width), Style::dim);
  const std::string keys =
      screen_.columns() >= 100
          ? "? help  / search  s order  enter values  r rename  c cast  m device  x drop  e edits  q quit"
          : "? help  / search  s order  enter values  e edits  q quit";
  screen_.text(last, 0, screen_.columns(), message_.empty() ? keys : cut(message_, width),
               message_.empty() ? Style::dim : Style::warning);
}

bool Browser::handle(const Key& key) {
  if (move(key)) return true;
  if (key.kind == Key::Kind::enter && has_rows()) {
    tree_.node(chosen()).tensor >= 0 ? show_details() : step_into();
    return true;
  }
  if (key.kind != Key::Kind::character) return true;
  if (key.is('q')) return !leave();
  try {
    if (!change_tree(key.character) && !change_queue(key.character)) message_ = "? shows the keys";
  } catch (const core::Error& error) {
    message_ = one_line(error.what());
  }
  return true;
}

bool Browser::move(const Key& key) {
  const auto page = static_cast<std::size_t>(height());
  switch (key.kind) {
    case Key::Kind::up:
      go_to(row_ == 0 ? 0 : row_ - 1);
      return true;
    case Key::Kind::down:
      go_to(row_ + 1);
      return true;
    case Key::Kind::page_up:
      go_to(row_ < page ? 0 : row_ - page);
      return true;
    case Key::Kind::page_down:
      go_to(row_ + page);
      return true;
    case Key::Kind::home:
      go_to(0);
      return true;
    case Key::Kind::end:
      go_to(tree_.rows().size());
      return true;
    case Key::Kind::left:
      step_out();
      return true;
    case Key::Kind::right:
      step_into();
      return true;
    case Key::Kind::character:
      break;
    default:
      return key.kind != Key::Kind::enter;
  }
  switch (key.character) {
    case 'k':
      return move({Key::Kind::up});
    case 'j':
      return move({Key::Kind::down});
    case 'g':
      return move({Key::Kind::home});
    case 'G':
      return move({Key::Kind::end});
    case 'h':
      return move({Key::Kind::left});
    case 'l':
    case ' ':
      return move({Key::Kind::right});
    default:
      return false;
  }
}

void Browser::step_into() {
  if (!has_rows()) return;
  const TensorTree::Node& node = tree_.node(chosen());
  if (node.is_module() && !node.is_open) return tree_.open(chosen());
  if (node.is_module()) return go_to(row_ + 1);
  show_details();
}

void Browser::step_out() {
  if (!has_rows()) return;
  const TensorTree::Node& node = tree_.node(chosen());
  if (node.is_module() && node.is_open) return tree_.fold(chosen());
  if (node.parent != 0) go_to(tree_.row_of(node.parent));
}

bool Browser::change_tree(char32_t character) {
  const std::uint32_t at = has_rows() ? chosen() : 0;
  switch (character) {
    case 'O':
      tree_.open_all();
      break;
    case 'F':
      tree_.fold_all();
      break;
    case '/':
      if (auto text = ask("search: "); text && !text->empty()) wanted_ = *text;
      search(false);
      return true;
    case 'n':
    case 'N':
      search(character == 'N');
      return true;
    case 's':
      next_order();
      break;
    case 'd':
      compare_below();
      break;
    case 'f':
      if (files_.second.empty()) message_ = "there is no second file: ckpt view A B compares two";
      if (!files_.second.empty()) tree_.show_differences(!tree_.shows_differences());
      break;
    case '?':
      show_help();
      return true;
    default:
      return false;
  }
  go_to(tree_.row_of(at));
  return true;
}

bool Browser::change_queue(char32_t character) {
  switch (character) {
    case 'r':
    case 'c':
    case 'm':
    case 'x':
      if (has_rows()) queue_edit(character);
      return true;
    case 'u':
      if (queue_.empty()) message_ = "no edit is waiting";
      if (!queue_.empty()) queue_.undo_last();
      return true;
    case 'e':
      show_queue();
      return true;
    default:
      return false;
  }
}

Key Browser::page(const std::string& title, const std::vector<std::string>& lines, const std::string& foot,
                  const std::string& keys) {
  std::size_t top = 0;
  for (;;) {
    const auto shown = static_cast<std::size_t>(height());
    const std::size_t most = lines.size() > shown ? lines.size() - shown : 0;
    top = std::min(top, most);
    screen_.clear();
    screen_.text(0, 0, screen_.columns(), cut(title, static_cast<std::size_t>(screen_.columns())), Style::title);
    for (std::size_t i = 0; i < shown && top + i < lines.size(); ++i) {
      screen_.text(static_cast<int>(i) + 1, 0, screen_.columns(), lines[top + i]);
    }
    screen_.text(screen_.rows() - 1, 0, screen_.columns(), foot, Style::dim);
    screen_.show();
    const Key key = screen_.read();
    using Kind = Key::Kind;
    if (key.kind == Kind::closed) closed_ = true;
    if (key.kind == Kind::closed || key.kind == Kind::escape || key.kind == Kind::left || key.is('q'))
      return {Kind::escape};
    if (key.kind == Kind::resized) return key;
    if (key.kind == Kind::character && keys.find(static_cast<char>(key.character)) != std::string::npos) return key;
    if (key.kind == Kind::down || key.is('j')) top = std::min(top + 1, most);
    if (key.kind == Kind::up || key.is('k')) top = top == 0 ? 0 : top - 1;
    if (key.kind == Kind::page_down || key.is(' ')) top = std::min(top + shown, most);
    if (key.kind == Kind::page_up) top = top < shown ? 0 : top - shown;
    if (key.kind == Kind::home || key.is('g')) top = 0;
    if (key.kind == Kind::end || key.is('G')) top = most;
  }
}

std::optional<std::string> Browser::ask(const std::string& question) {
  std::u32string typed;
  auto text = [&] {
    std::string out;
    for (char32_t c : typed) {
      if (c < 0x80) out += static_cast<char>(c);
      if (c >= 0x80 && c < 0x800) out += {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
      if (c >= 0x800 && c < 0x10000) {
        out += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                static_cast<char>(0x80 | (c & 63))};
      }
      if (c >= 0x10000) {
        out += {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
                static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
      }
    }
    return out;
  };
  for (;;) {
    const std::string shown = question + core::printable(text());
    const auto width = static_cast<std::size_t>(screen_.columns() - 1);
    screen_.text(screen_.rows() - 1, 0, screen_.columns(), cut(shown, width), Style::title);
    screen_.cursor(screen_.rows() - 1, static_cast<int>(std::min(display_width(shown), width)));
    screen_.show();
    const Key key = screen_.read();
    if (key.kind == Key::Kind::closed) closed_ = true;
    if (key.kind == Key::Kind::escape || key.kind == Key::Kind::closed) return std::nullopt;
    if (key.kind == Key::Kind::enter) return text();
    if (key.kind == Key::Kind::erase && !typed.empty()) typed.pop_back();
    const bool takes = key.kind == Key::Kind::character && key.character >= 32 && typed.size() < kMostName;
    if (takes) typed += key.character;
    if (key.kind == Key::Kind::resized) draw();
  }
}

void Browser::show_details() {
  const auto index = static_cast<std::size_t>(tree_.node(chosen()).tensor);
  DetailOptions how{.threads = threads_};
  for (;;) {
    how.width = static_cast<std::size_t>(std::max(20, screen_.columns()));
    const ViewTensor& tensor = tree_.tensors()[index];
    const Key key = page(core::printable(tensor.name), detail_lines(tensor, how),
                         "q back  i slice  v read all  arrows scroll", "iv");
    if (key.is('v')) how.read_all = true;
    if (key.is('i')) how.slice = ask("slice, as in Python (0:5,:,-1): ").value_or(how.slice);
    if (key.kind == Key::Kind::escape) return;
  }
}

void Browser::show_help() {
  while (page("ckpt view: keys", help_lines(), "q back", "").kind == Key::Kind::resized) {
  }
}

void Browser::search(bool backwards) {
  if (wanted_.empty() || !has_rows()) return;
  if (const auto found = tree_.find(wanted_, chosen(), backwards)) return go_to(tree_.row_of(*found));
  message_ = "no name has " + core::quote(wanted_);
}

void Browser::next_order() {
  const auto next = static_cast<ViewOrder>((static_cast<int>(tree_.order()) + 1) % 4);
  const std::string note = next == ViewOrder::norm ? read_norms() : "";
  tree_.sort(next);
  message_ = "by " + std::string(name(next)) + (next == ViewOrder::file ? ", as they are stored" : "") + note;
}

std::string Browser::for_tensors(const std::vector<std::size_t>& tensors, const std::string& what,
                                 const std::function<void(ViewTensor&)>& work) {
  std::size_t done = 0, unreadable = 0;
  std::string first_error;
  for (std::size_t index : tensors) {
    if (done % 16 == 0) {
      message_ =
          what + " " + core::format_count(done) + " of " + count_of(tensors.size(), "tensor") + "; a key stops it";
      draw_foot();
      screen_.show();
      const Key key = screen_.read(0);
      if (key.kind == Key::Kind::closed) closed_ = true;
      if (key.kind != Key::Kind::none && key.kind != Key::Kind::resized) return ", as far as they were read";
    }
    try {
      core::with_context(core::quote(tree_.tensors()[index].name), [&] { work(tree_.tensor(index)); });
    } catch (const core::Error& error) {
      if (unreadable++ == 0) first_error = one_line(error.what());
    }
    ++done;
  }
  return unreadable == 0 ? "" : "; " + count_of(unreadable, "tensor") + " cannot be read: " + first_error;
}

std::string Browser::read_norms() {
  std::vector<std::size_t> unread = tree_.tensors_below(0);
  std::erase_if(unread, [&](std::size_t i) { return tree_.tensors()[i].norm.has_value(); });
  std::string note = for_tensors(unread, "reading", [&](ViewTensor& tensor) {
    const ckpt::EntryPtr& entry = tensor.first ? tensor.first : tensor.second;
    const ckpt::StatsOptions how{.threads = threads_, .bins = 0};
    tensor.norm = ckpt::stats({{{}, tensor.name, entry}}, how).tensors.at(0).stats.norm;
  });
  tree_.note_changes();
  return note;
}

void Browser::compare_below() {
  if (files_.second.empty()) {
    message_ = "there is no second file: ckpt view A B compares two";
    return;
  }
  if (!has_rows()) return;
  const std::vector<std::size_t> below = tree_.tensors_below(chosen());
  const std::string note =
      for_tensors(below, "comparing", [&](ViewTensor& tensor) { compare_values(tensor, threads_); });
  tree_.note_changes();
  const auto different = std::count_if(below.begin(), below.end(), [&](std::size_t i) {
    const Sameness sameness = tree_.tensors()[i].sameness;
    return sameness != Sameness::equal && sameness != Sameness::unknown;
  });
  message_ = core::format_count(static_cast<std::uint64_t>(different)) + " of " + count_of(below.size(), "tensor") +
             " differ" + note;
}

void Browser::queue_edit(char32_t kind) {
  if (!files_.second.empty()) {
    message_ = "edits are for one file: ckpt view FILE";
    return;
  }
  const std::string file = files_.first;
  const std::string whole = tree_.full_name(chosen());
  std::optional<std::string> text;
  if (kind == 'r') {
    text = ask("new name for " + core::printable(whole) + ": ");
    if (text && !text->empty()) {
      queue_.add(rename_edit(*files_.root, file, whole, *text, tree_.node(chosen()).is_module()));
    }
  } else if (kind == 'c') {
    text = ask("cast all tensors to (f32, bf16, f16, ...): ");
    if (text && !text->empty()) queue_.add(cast_edit(file, *text));
  } else if (kind == 'm') {
    text = ask("tag all tensors with the device (cpu, cuda:0, ...): ");
    if (text && !text->empty()) queue_.add(remap_edit(file, *text));
  } else {
    queue_.add(drop_edit(file, whole));
    text = whole;
  }
  if (text && !text->empty()) message_ = "waiting: " + queue_.edits().back().line;
}

void Browser::show_queue() {
  if (queue_.empty()) {
    message_ = "no edit is waiting; r, c, m and x add one";
    return;
  }
  for (;;) {
    const Key key = page("what would be done", queue_.preview(*files_.checkpoint, files_.at),
                         "q back  u take the last back  w write", "uw");
    if (key.kind == Key::Kind::escape) return;
    if (key.is('u')) queue_.undo_last();
    if (queue_.empty()) return;
    if (!key.is('w')) continue;
    const std::optional<std::string> output = ask("write to (enter alone: change the file itself; escape: not yet): ");
    if (!output) continue;
    output_ = *output;
    closed_ = true;
    return;
  }
}

bool Browser::leave() {
  if (queue_.empty()) return true;
  const std::optional<std::string> answer =
      ask(count_of(queue_.size(), "edit") + " waiting and not made; leave without? (y or n): ");
  return answer && (*answer == "y" || *answer == "yes");
}

}  // namespace cli
