#include "samples/train/csv.h"

#include <algorithm>
#include <charconv>

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

char separator_of(std::string_view line) {
  for (char candidate : {',', ';', '\t'}) {
    if (line.find(candidate) != std::string_view::npos) return candidate;
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

void check(const std::vector<Numbered>& rows, std::size_t columns) {
  for (const Numbered& row : rows) {
    if (row.fields.size() != columns) {
      fail(row.line, std::to_string(row.fields.size()) + " fields where the first row has " + std::to_string(columns));
    }
    const auto empty = std::find(row.fields.begin(), row.fields.end(), "");
    if (empty != row.fields.end()) {
      fail(row.line, "field " + std::to_string(empty - row.fields.begin() + 1) + " is empty");
    }
  }
}

/// The different words of a column, sorted; none when it holds numbers.
std::vector<std::string> words_of(const std::vector<Numbered>& rows, std::size_t column) {
  if (try_number(rows.front().fields[column])) return {};
  std::vector<std::string> words;
  for (const Numbered& row : rows) words.push_back(row.fields[column]);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return words;
}

double value_of(const Numbered& row, std::size_t column, const std::vector<std::string>& words) {
  const std::string& field = row.fields[column];
  if (!words.empty()) {
    return static_cast<double>(std::lower_bound(words.begin(), words.end(), field) - words.begin());
  }
  if (auto number = try_number(field)) return *number;
  fail(row.line, core::quote(field) + " in field " + std::to_string(column + 1) + " is no number");
}

Table parse(std::string_view text, const TableOptions& options) {
  std::vector<Numbered> rows = rows_of(text, options.skip.value_or(0));
  Table table;
  table.names = options.names;
  const bool named = !options.skip && rows.size() > 1 && !has_number(rows[0].fields) && has_number(rows[1].fields);
  if (named) {
    table.names = rows.front().fields;
    rows.erase(rows.begin());
  }
  if (rows.empty()) throw Error(ErrorCode::corrupt, "holds no row");
  table.columns = rows.front().fields.size();
  check(rows, table.columns);
  for (std::size_t column = 0; column < table.columns; ++column) table.words.push_back(words_of(rows, column));
  table.values.reserve(rows.size() * table.columns);
  for (const Numbered& row : rows) {
    for (std::size_t column = 0; column < table.columns; ++column) {
      table.values.push_back(value_of(row, column, table.words[column]));
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

}  // namespace train
