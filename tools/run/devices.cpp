#include "tools/run/devices.h"

#include <cstdio>

#include "libckpt/io/json.h"
#include "libcore/backend/device_registry.h"
#include "libcore/backend/device_report.h"
#include "libcore/backend/threads.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/exit_code.h"
#include "tools/run/transfer.h"

namespace cli {
namespace {

constexpr const char* kLogicalHint =
    "CORE_LOGICAL_DEVICES=4 gives cuda:0 to cuda:3 on host memory, to learn and test with";

std::string time_text(double seconds) {
  char text[32];
  if (seconds < 1e-3) {
    std::snprintf(text, sizeof text, "%.2f us", seconds * 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
  }
  return text;
}

std::string rate_text(std::uint64_t bytes, double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GB/s", static_cast<double>(bytes) / seconds / 1e9);
  return text;
}

std::string model_text(const CostModel& model) {
  char text[96];
  std::snprintf(text, sizeof text, "%s + size / %.2f GB/s (off by at most %.0f %%)", time_text(model.latency).c_str(),
                model.bytes_per_second / 1e9, model.error * 100);
  return text;
}

void print_transfers(Output& out, const TransferReport& report) {
  out.print("\nMoving data to and from " + report.device.str() + "\n");
  if (core::backend_for(report.device).is_host_memory()) {
    out.print("  its memory is host memory: these are copies within it, and no bus is crossed\n");
  }
  Table table({{"SIZE", Table::Align::right},
               {"TO DEVICE", Table::Align::right},
               {"RATE", Table::Align::right},
               {"FROM PINNED", Table::Align::right},
               {"RATE", Table::Align::right},
               {"TO HOST", Table::Align::right},
               {"RATE", Table::Align::right}});
  for (const Transfer& t : report.sizes) {
    table.add_row({core::format_size(t.bytes), time_text(t.to_device), rate_text(t.bytes, t.to_device),
                   time_text(t.from_pinned), rate_text(t.bytes, t.from_pinned), time_text(t.to_host),
                   rate_text(t.bytes, t.to_host)});
  }
  table.print(out);
  out.print(core::format_count(report.parts) + " tensors of " + core::format_size(report.part_bytes) + ": " +
            time_text(report.many_small) + " one by one, " + time_text(report.together) +
            " together (core::to_device); the same bytes as one tensor: " + time_text(report.one_large) + "\n");
  out.print("to device: " + model_text(report.to_device) + "\nfrom pinned: " + model_text(report.from_pinned) +
            "\nto host: " + model_text(report.to_host) + "\n");
  out.print("break-even: " + core::format_size(report.break_even) +
            " take as long as the call itself; move smaller tensors together\n");
}

void write_model(ckpt::JsonWriter& json, const char* name, const CostModel& model) {
  json.key(name).begin_object();
  json.key("latency_seconds").value(model.latency);
  json.key("bytes_per_second").value(model.bytes_per_second);
  json.key("largest_error").value(model.error);
  json.end_object();
}

void write_transfers(ckpt::JsonWriter& json, const TransferReport& report) {
  json.begin_object();
  json.key("device").value(report.device.str());
  json.key("sizes").begin_array();
  for (const Transfer& t : report.sizes) {
    json.begin_object();
    json.key("bytes").value(t.bytes);
    json.key("to_device_seconds").value(t.to_device);
    json.key("from_pinned_seconds").value(t.from_pinned);
    json.key("to_host_seconds").value(t.to_host);
    json.end_object();
  }
  json.end_array();
  json.key("parts").value(report.parts);
  json.key("part_bytes").value(report.part_bytes);
  json.key("many_small_seconds").value(report.many_small);
  json.key("together_seconds").value(report.together);
  json.key("one_large_seconds").value(report.one_large);
  json.key("break_even_bytes").value(report.break_even);
  write_model(json, "to_device_model", report.to_device);
  write_model(json, "from_pinned_model", report.from_pinned);
  write_model(json, "to_host_model", report.to_host);
  json.end_object();
}

void write_device(ckpt::JsonWriter& json, const core::DeviceInfo& info) {
  const core::cuda::MemoryInfo memory = core::cuda::mem_get_info(info.device);
  json.begin_object();
  json.key("device").value(info.device.str());
  json.key("name").value(info.name);
  json.key("logical").value(info.is_logical);
  json.key("total_memory").value(static_cast<std::uint64_t>(memory.total));
  json.key("free_memory").value(static_cast<std::uint64_t>(memory.free));
  json.key("ordinal").value(info.ordinal);
  json.key("uuid").value(info.uuid);
  json.key("pci_bus_id").value(info.pci_bus_id);
  if (info.major > 0) {
    json.key("compute_capability").value(std::to_string(info.major) + "." + std::to_string(info.minor));
    json.key("multiprocessors").value(info.multiprocessors);
  }
  json.end_object();
}

std::vector<TransferReport> measure_all() {
  const int count = core::cuda::device_count();
  if (count == 0) {
    throw core::Error(core::ErrorCode::device, std::string("there is no device to measure; ") + kLogicalHint);
  }
  std::vector<TransferReport> reports;
  for (int i = 0; i < count; ++i) reports.push_back(measure_transfers(core::Device(core::DeviceType::cuda, i)));
  return reports;
}

void print_json(Output& out, const std::vector<TransferReport>& reports) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("threads").value(core::num_threads());
  json.key("devices").begin_array();
  for (int i = 0; i < core::cuda::device_count(); ++i) write_device(json, core::cuda::device_info(i));
  json.end_array();
  if (!reports.empty()) {
    json.key("transfers").begin_array();
    for (const TransferReport& report : reports) write_transfers(json, report);
    json.end_array();
  }
  json.end_object();
  out.print(json.text() + "\n");
}

}  // namespace

int run_devices(Context& context, const DevicesOptions& options) {
  const std::vector<TransferReport> reports = options.measure ? measure_all() : std::vector<TransferReport>();
  if (options.json) {
    print_json(context.out, reports);
    return kDone;
  }
  const int count = core::cuda::device_count();
  context.out.print("cpu: " + count_of(static_cast<std::uint64_t>(core::num_threads()), "thread") + "\n");
  context.out.print(core::cuda::device_table());
  if (count == 0) context.out.print(std::string(kLogicalHint) + "\n");
  for (const TransferReport& report : reports) {
    print_transfers(context.out, report);
  }
  return kDone;
}

}  // namespace cli
