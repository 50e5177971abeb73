// The table of averages, in the columns that PyTorch prints.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "libcore/base/error.h"
#include "libcore/profiler/profiler.h"

namespace core::profiler {
namespace {

constexpr std::size_t kWidth = 12, kNameWidth = 55, kShapesWidth = 80;

std::string formatted(const char* form, double value) {
  char text[64];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string time_text(double micros) {
  if (micros >= 1e6) return formatted("%.3fs", micros / 1e6);
  return micros >= 1e3 ? formatted("%.3fms", micros / 1e3) : formatted("%.3fus", micros);
}

std::string share_text(double micros, double total) {
  return total == 0 ? "NaN" : formatted("%.2f%%", micros * 100 / total);
}

std::string memory_text(std::int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  constexpr double kKiB = 1024;
  if (std::abs(size) >= kKiB * kKiB * kKiB) return formatted("%.2f GB", size / (kKiB * kKiB * kKiB));
  if (std::abs(size) >= kKiB * kKiB) return formatted("%.2f MB", size / (kKiB * kKiB));
  return std::abs(size) >= kKiB ? formatted("%.2f KB", size / kKiB) : std::to_string(bytes) + " B";
}

std::string shapes_text(const std::vector<Shape>& shapes) {
  std::string out;
  for (const Shape& shape : shapes) out += (out.empty() ? "" : ", ") + to_list(shape);
  return "[" + out + "]";
}

using Number = double (*)(const FunctionEventAvg&);

Number number_of(std::string_view name) {
  if (name == "count") return [](const FunctionEventAvg& r) { return static_cast<double>(r.count); };
  if (name == "cpu_time") return [](const FunctionEventAvg& r) { return r.cpu_time(); };
  if (name == "cpu_time_total") return [](const FunctionEventAvg& r) { return r.cpu_time_total; };
  if (name == "self_cpu_time_total") return [](const FunctionEventAvg& r) { return r.self_cpu_time_total; };
  if (name == "cpu_memory_usage")
    return [](const FunctionEventAvg& r) { return static_cast<double>(r.cpu_memory_usage); };
  if (name == "self_cpu_memory_usage") {
    return [](const FunctionEventAvg& r) { return static_cast<double>(r.self_cpu_memory_usage); };
  }
  throw Error(ErrorCode::attribute, "'FunctionEventAvg' object has no attribute '" + std::string(name) + "'");
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text + "  ";
}

}  // namespace

double EventAverages::self_cpu_time_total() const {
  double sum = 0;
  for (const FunctionEventAvg& row : rows_) sum += row.self_cpu_time_total;
  return sum;
}

std::string EventAverages::table(std::string_view sort_by, std::int64_t row_limit) const {
  std::vector<FunctionEventAvg> rows = rows_;
  if (!sort_by.empty()) {
    std::stable_sort(rows.begin(), rows.end(),
                     [of = number_of(sort_by)](const auto& a, const auto& b) { return of(a) > of(b); });
  }
  if (rows.empty()) return "";
  std::size_t name_width = 0, shapes_width = 0;
  bool with_shapes = false;
  for (const FunctionEventAvg& row : rows) {
    name_width = std::max(name_width, row.key.size() + 4);
    shapes_width = std::max(shapes_width, shapes_text(row.input_shapes).size() + 4);
    with_shapes = with_shapes || !row.input_shapes.empty();
  }
  name_width = std::min(name_width, kNameWidth);
  shapes_width = std::min(shapes_width, kShapesWidth);

  std::vector<std::string> heads = {"Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"};
  if (memory_) heads.insert(heads.end(), {"CPU Mem", "Self CPU Mem"});
  heads.push_back("# of Calls");
  std::string rule = std::string(name_width, '-') + "  ", head = padded("Name", name_width);
  for (const std::string& text : heads) {
    rule += std::string(kWidth, '-') + "  ";
    head += padded(text, kWidth);
  }
  if (with_shapes) {
    rule += std::string(shapes_width, '-') + "  ";
    head += padded("Input Shapes", shapes_width);
  }
  const double total = self_cpu_time_total();
  std::string out = rule + "\n" + head + "\n" + rule + "\n";
  for (std::size_t i = 0; i < rows.size() && static_cast<std::int64_t>(i) != row_limit; ++i) {
    const FunctionEventAvg& row = rows[i];
    out += padded(row.key.size() >= kNameWidth - 3 ? row.key.substr(0, kNameWidth - 3) + "..." : row.key, name_width);
    for (const std::string& cell :
         {share_text(row.self_cpu_time_total, total), time_text(row.self_cpu_time_total),
          share_text(row.cpu_time_total, total), time_text(row.cpu_time_total), time_text(row.cpu_time())}) {
      out += padded(cell, kWidth);
    }
    if (memory_)
      out += padded(memory_text(row.cpu_memory_usage), kWidth) + padded(memory_text(row.self_cpu_memory_usage), kWidth);
    out += padded(std::to_string(row.count), kWidth);
    if (with_shapes) out += padded(shapes_text(row.input_shapes).substr(0, shapes_width), shapes_width);
    out += "\n";
  }
  return out + rule + "\nSelf CPU time total: " + time_text(total) + "\n";
}

}  // namespace core::profiler
