#pragma once
// Tables as text: numbers between commas, semicolons, tabs or blanks, with or without a line of names, plain or gzip.
// Thread safety: pure function. Use: train::Table table = train::read_table("iris.csv", {.skip = 1});

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace train {

struct Table {
  std::size_t columns = 0;
  std::vector<std::string> names;  ///< of the columns; empty without a line of them
  std::vector<double> values;      ///< row-major
  /// For each column the words that stand in it, sorted, when it holds words; its values are then their places.
  std::vector<std::vector<std::string>> words;

  std::size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
};

struct TableOptions {
  /// Lines to leave out at the beginning. None: a first line of words above numbers is a line of names.
  std::optional<std::size_t> skip = {};
  std::vector<std::string> names = {};
};

/// Quotes may enclose a field. A column is one of words when at least half of its fields are no numbers. Errors:
/// Error(io); Error(corrupt) naming file and line for a row of another length, an empty field, and a word or a number
/// that is not finite in a column of numbers.
Table read_table(const std::filesystem::path& path, const TableOptions& options = {});

/// One row of any text.
struct Record {
  std::size_t line = 0;  ///< from 1, where it begins
  std::vector<std::string> fields;
};
/// Rows of texts, the first of them the names of the columns: fields between commas, semicolons or tabs (the one that
/// the first line has), in quotes where they hold those or ends of lines, a quote in them doubled. Errors: Error(io);
/// Error(corrupt) naming file and line for text that is not UTF-8, a quote without an end and a row of another length.
std::vector<Record> read_records(const std::filesystem::path& path);

}  // namespace train
