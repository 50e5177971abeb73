#include "tools/train/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/data/idx.h"

namespace train {
namespace {

using core::Error;
using core::ErrorCode;
using Line = std::vector<std::string>;

std::optional<double> try_number(const std::string& field) {
  double value = 0;
  const char *first = field.data(), *last = first + field.size();
  if (first != last && *first == '+') ++first;
  const auto [end, code] = std::from_chars(first, last, value);
  return code == std::errc() && end == last ? std::optional(value) : std::nullopt;
}

bool has_number(const Line& line) {
  return std::any_of(line.begin(), line.end(), [](const std::string& field) { return try_number(field).has_value(); });
}

/// The first of ; tab and , that stands outside of quotes (where there are semicolons, commas are decimal ones); else a
/// blank.
char separator_of(std::string_view line) {
  std::string bare;
  bool quoted = false;
  for (char c : line) {
    if (c == '"') quoted = !quoted;
    if (!quoted) bare += c;
  }
  for (char candidate : {';', '\t', ','}) {
    if (bare.find(candidate) != std::string::npos) return candidate;
  }
  return ' ';
}

std::string trimmed(std::string_view field) {
  const auto begin = field.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  field = field.substr(begin, field.find_last_not_of(" \t\r") - begin + 1);
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"') field = field.substr(1, field.size() - 2);
  return std::string(field);
}

/// Fields between separators outside of quotes; runs of blanks count as one.
Line fields_of(std::string_view line, char separator) {
  Line fields;
  std::size_t begin = 0;
  bool quoted = false;
  for (std::size_t i = 0; i <= line.size(); ++i) {
    if (i < line.size() && line[i] == '"') quoted = !quoted;
    const bool ends = i == line.size() || (!quoted && (line[i] == separator || (separator == ' ' && line[i] == '\t')));
    if (!ends) continue;
    std::string field = trimmed(line.substr(begin, i - begin));
    if (separator != ' ' || !field.empty()) fields.push_back(std::move(field));
    begin = i + 1;
  }
  return fields;
}

struct Numbered {
  std::size_t line;  ///< from 1
  Line fields;
};

std::vector<Numbered> rows_of(std::string_view text, std::size_t skip) {
  constexpr std::string_view kMark = "\xef\xbb\xbf";  // of UTF-8, in front of what spreadsheets write
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  std::vector<Numbered> rows;
  char separator = '\0';
  std::size_t number = 0;
  for (std::string_view line : core::split(text, '\n')) {
    ++number;
    if (number <= skip || trimmed(line).empty()) continue;
    if (separator == '\0') separator = separator_of(line);
    rows.push_back({number, fields_of(line, separator)});
  }
  return rows;
}

[[noreturn]] void fail(std::size_t line, const std::string& what) {
  throw Error(ErrorCode::corrupt, "line " + std::to_string(line) + ": " + what);
}

/// "field 2 (age)".
std::string field_name(const std::vector<std::string>& names, std::size_t column) {
  const std::string number = "field " + std::to_string(column + 1);
  return column < names.size() ? number + " (" + names[column] + ")" : number;
}

void check(const std::vector<Numbered>& rows, const Table& table) {
  const std::size_t columns = table.columns;
  for (const Numbered& row : rows) {
    if (row.fields.size() != columns) {
      fail(row.line, std::to_string(row.fields.size()) + (row.fields.size() == 1 ? " field where " : " fields where ") +
                         (table.names.empty() ? "the first row has " : "the line of names has ") +
                         std::to_string(columns));
    }
    const auto empty = std::find(row.fields.begin(), row.fields.end(), "");
    if (empty != row.fields.end()) {
      fail(row.line, field_name(table.names, static_cast<std::size_t>(empty - row.fields.begin())) +
                         " is empty; rows with missing values must be filled or left out");
    }
  }
}

/// The different words of a column, sorted; none when most of it are numbers.
std::vector<std::string> words_of(const std::vector<Numbered>& rows, std::size_t column) {
  const auto numbers = std::count_if(rows.begin(), rows.end(),
                                     [&](const Numbered& row) { return try_number(row.fields[column]).has_value(); });
  if (2 * static_cast<std::size_t>(numbers) > rows.size()) return {};
  std::vector<std::string> words;
  for (const Numbered& row : rows) words.push_back(row.fields[column]);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

double value_of(const Numbered& row, std::size_t column, const Table& table) {
  const std::string& field = row.fields[column];
  const std::vector<std::string>& words = table.words[column];
  if (!words.empty()) {
    return static_cast<double>(std::lower_bound(words.begin(), words.end(), field) - words.begin());
  }
  const std::optional<double> number = try_number(field);
  if (number && std::isfinite(*number)) return *number;
  const bool is_decimal = field.find(',') != std::string::npos;
  fail(row.line, core::quote(field) + " in " + field_name(table.names, column) +
                     (is_decimal ? " is not a number: write decimals with a point" : " is not a number"));
}

void check_is_text(std::string_view text) {
  if (text.find('\0') == std::string_view::npos) return;
  throw Error(ErrorCode::corrupt, "is not text: has a byte 0, as text in UTF-16 has");
}

/// Rows with quotes as spreadsheets write them (RFC 4180).
class RecordReader {
 public:
  explicit RecordReader(std::string_view text)
      : text_(text), separator_(separator_of(text.substr(0, text.find('\n')))) {}

  std::vector<Record> read() {
    std::vector<Record> records;
    while (at_ < text_.size()) {
      Record record = next();
      const bool is_blank = record.fields.size() == 1 && trimmed(record.fields[0]).empty();
      if (!is_blank) records.push_back(std::move(record));
    }
    return records;
  }

 private:
  Record next() {
    Record record{.line = line_, .fields = {}};
    do {
      record.fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted() : bare());
    } while (at_ < text_.size() && text_[at_++] == separator_);
    ++line_;
    return record;
  }
  /// Up to a separator or the end of the line, which stays.
  std::string bare() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n') ++at_;
    std::string field(text_.substr(begin, at_ - begin));
    if (!field.empty() && field.back() == '\r') field.pop_back();
    return field;
  }
  std::string quoted() {
    const std::size_t begins = line_;
    std::string field;
    for (++at_; at_ < text_.size(); ++at_) {
      const bool doubled = text_.substr(at_, 2) == "\"\"";
      if (text_[at_] == '"' && !doubled) return ++at_, field + bare();
      if (doubled) ++at_;
      if (text_[at_] == '\n') ++line_;
      field += text_[at_];
    }
    fail(begins, "a quote begins here and has no end");
  }

  std::string_view text_;
  char separator_;
  std::size_t at_ = 0, line_ = 1;
};

std::vector<Record> parse_records(std::string_view text) {
  check_is_text(text);
  if (!core::is_utf8(text)) throw Error(ErrorCode::corrupt, "the text is not UTF-8");
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::vector<Record> records = RecordReader(text).read();
  if (records.size() < 2) {
    throw Error(ErrorCode::corrupt, records.empty() ? "holds no row" : "holds a line of names and no row");
  }
  for (const Record& record : records) {
    const std::size_t wanted = records.front().fields.size(), there = record.fields.size();
    if (there == wanted) continue;
    fail(record.line, std::to_string(there) + (there == 1 ? " field" : " fields") + " where the line of names has " +
                          std::to_string(wanted));
  }
  return records;
}

Table parse(std::string_view text, const TableOptions& options) {
  check_is_text(text);
  std::vector<Numbered> rows = rows_of(text, options.skip.value_or(0));
  Table table;
  table.names = options.names;
  const bool named = !options.skip && rows.size() > 1 && !has_number(rows[0].fields) && has_number(rows[1].fields);
  if (named) {
    table.names = rows.front().fields;
    rows.erase(rows.begin());
  }
  const bool only_names = !options.skip && rows.size() == 1 && !has_number(rows[0].fields);
  if (rows.empty() || only_names) {
    throw Error(ErrorCode::corrupt, only_names ? "holds a line of names and no row" : "holds no row");
  }
  table.columns = named ? table.names.size() : rows.front().fields.size();
  check(rows, table);
  for (std::size_t column = 0; column < table.columns; ++column) table.words.push_back(words_of(rows, column));
  table.values.reserve(rows.size() * table.columns);
  for (const Numbered& row : rows) {
    for (std::size_t column = 0; column < table.columns; ++column) {
      table.values.push_back(value_of(row, column, table));
    }
  }
  return table;
}

}  // namespace

Table read_table(const std::filesystem::path& path, const TableOptions& options) {
  return core::with_context(path.string(), [&] {
    const core::ByteVector bytes = zoo::read_unpacked(path);
    return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options);
  });
}

std::vector<Record> read_records(const std::filesystem::path& path) {
  return core::with_context(path.string(), [&] {
    const core::ByteVector bytes = zoo::read_unpacked(path);
    return parse_records({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
}

}  // namespace train
