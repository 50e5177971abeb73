#include "libcore/backend/device_report.h"

#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <map>

#include "libcore/backend/collectives.h"
#include "libcore/backend/device_registry.h"

namespace core::cuda {
namespace {

__attribute__((format(printf, 1, 2))) std::string format(const char* pattern, ...) {
  std::array<char, 256> text;
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text.data(), text.size(), pattern, arguments);
  va_end(arguments);
  return text.data();
}

using Stats = std::map<std::string, std::int64_t>;
using FormatNumber = std::string (*)(std::int64_t number, std::int64_t scale);

/// In the largest unit that leaves `scale` at least three digits; the same unit in all rows of a block.
std::string size_text(std::int64_t bytes, std::int64_t scale) {
  const char* units[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  double left = static_cast<double>(scale);
  while (unit < 5 && left >= 768 * 1024) {
    ++unit;
    left /= 1024;
    bytes /= 1024;
  }
  return format("%6lld %s", static_cast<long long>(bytes), units[unit]);
}

std::string count_text(std::int64_t count, std::int64_t scale) {
  const char* units[] = {" ", "K", "M"};
  int unit = 0;
  double left = static_cast<double>(scale);
  while (unit < 2 && left >= 750 * 1000) {
    ++unit;
    left /= 1000;
    count /= 1000;
  }
  return format("%7lld %s ", static_cast<long long>(count), units[unit]);
}

std::string rule(char c) {
  return "|" + std::string(75, c) + "|\n";
}

/// One row; the numbers of `scale_key` choose the units.
std::string row(const Stats& stats, const char* title, const std::string& key, const std::string& scale_key,
                FormatNumber number) {
  std::string text = format("| %-21s ", title);
  for (const char* column : {".current", ".peak", ".allocated", ".freed"}) {
    text += "| " + number(stats.at(key + column), stats.at(scale_key + column)) + " ";
  }
  return text + "|\n";
}

struct Metric {
  const char* key;
  const char* title;
  FormatNumber number;
};

constexpr Metric kMetrics[] = {
    {"allocated_bytes", "Allocated memory", size_text},
    {"active_bytes", "Active memory", size_text},
    {"requested_bytes", "Requested memory", size_text},
    {"reserved_bytes", "GPU reserved memory", size_text},
    {"inactive_split_bytes", "Non-releasable memory", size_text},
    {"allocation", "Allocations", count_text},
    {"active", "Active allocs", count_text},
    {"segment", "GPU reserved segments", count_text},
    {"inactive_split", "Non-releasable allocs", count_text},
};

std::string memory_cell(Device device) {
  constexpr double kMiB = 1 << 20;
  MemoryInfo info = mem_get_info(device);
  return format("%.0fMiB / %5.0fMiB", static_cast<double>(info.total - info.free) / kMiB,
                static_cast<double>(info.total) / kMiB);
}

}  // namespace

std::string memory_summary(Device device, SummaryForm form) {
  Stats stats = memory_stats(device);
  std::string text = rule('=');
  text += format("| %16s PyTorch CUDA memory summary, device ID %-17d |\n", "", resolve(device).index());
  text += rule('-');
  text +=
      format("|  %9s CUDA OOMs: %-12lld | %6s cudaMalloc retries: %-8lld  |\n", "",
             static_cast<long long>(stats.at("num_ooms")), "", static_cast<long long>(stats.at("num_alloc_retries")));
  text += rule('=');
  text += "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n";
  for (const Metric& metric : kMetrics) {
    std::string key = metric.key, all = key + ".all";
    text += rule('-') + row(stats, metric.title, all, all, metric.number);
    if (form == SummaryForm::abbreviated) continue;
    text += row(stats, "      from large pool", key + ".large_pool", all, metric.number);
    text += row(stats, "      from small pool", key + ".small_pool", all, metric.number);
  }
  for (const Metric& metric : {Metric{"oversize_allocations", "Oversize allocations", count_text},
                               Metric{"oversize_segments", "Oversize GPU segments", count_text}}) {
    text += rule('-') + row(stats, metric.title, metric.key, metric.key, metric.number);
  }
  return text + rule('=');
}

std::string device_table() {
  if (!is_available()) return "No devices were found\n";
  const std::string line = "+-------------------------------+----------------------+----------------------+\n";
  std::string text = "+" + std::string(77, '-') + "+\n";
  const std::string library = device_count() > 1 ? nccl::version() : std::string();
  text += format("| %-75s |\n", format("Devices of process: %d visible%s", device_count(),
                                       library.empty() ? "" : (", NCCL " + library).c_str())
                                    .c_str());
  text += "|" + line.substr(1, line.size() - 3) + "|\n";
  text +=
      "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
      "| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n"
      "|                               |                      |               MIG M. |\n"
      "|===============================+======================+======================|\n";
  for (int i = 0; i < device_count(); ++i) {
    DeviceInfo info = device_info(i);
    text +=
        format("| %3d  %-20.20s N/A | %-16.16s Off | %20s |\n", i, info.name.c_str(), info.pci_bus_id.c_str(), "N/A");
    text +=
        format("| N/A   N/A   N/A    N/A /  N/A | %20s |      N/A     Default |\n", memory_cell(info.device).c_str());
    text += format("| %29s | %20s | %20s |\n", "", "", "N/A");
    text += line;
  }
  return text;
}

}  // namespace core::cuda
