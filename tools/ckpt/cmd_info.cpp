// ckpt info: what a file is, in a few lines.

#include <algorithm>
#include <map>

#include "libckpt/transform/prefix.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/address.h"
#include "tools/ckpt/commands.h"
#include "tools/ckpt/listing.h"

namespace cli {
namespace {

constexpr std::size_t kMaxShown = 12;

struct Options : ReadOptions {
  std::vector<std::string> files;
};

/// Tensors by some property, most frequent first.
using Counts = std::vector<std::pair<std::string, std::uint64_t>>;

template <class Property>
Counts count_by(const Listing& listing, Property property) {
  std::map<std::string, std::uint64_t> counts;
  for (const ckpt::NamedEntry& tensor : listing.tensors) ++counts[property(*tensor.entry)];
  Counts sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

/// Keys of a state dict that begin with a wrapper's component: the prefix and how many.
Counts wrappers_of(const ckpt::Dict& dict) {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [key, value] : dict.items) {
    if (!key.is(ckpt::Value::Kind::text)) continue;
    std::string first = key.as_text().substr(0, key.as_text().find('.'));
    if (first.size() < key.as_text().size() && ckpt::is_wrapper_component(first)) ++counts[first + "."];
  }
  return {counts.begin(), counts.end()};
}

struct Info {
  Address address;
  ckpt::Checkpoint checkpoint;
  Listing listing;
  Counts dtypes;
  Counts locations;
  std::vector<ckpt::StateDictRef> state_dicts;
  std::uint64_t tied = 0;
  std::uint64_t file_bytes = 0;
};

Info examine(const Options& options, const std::string& file, ckpt::Report& report) {
  Info info;
  info.address = parse_address(file);
  info.checkpoint = ckpt::open(info.address.path, options.open(report));
  core::with_context(info.address.path.string(), [&] {
    const ckpt::Value& top = ckpt::value_at(info.checkpoint.root, info.address.at);
    info.listing = make_listing(top);
    info.state_dicts = ckpt::list_state_dicts(top);
  });
  info.dtypes = count_by(info.listing, [](const ckpt::Entry& e) { return std::string(core::name(e.dtype)); });
  info.locations = count_by(info.listing, [](const ckpt::Entry& e) { return e.location; });
  info.tied = static_cast<std::uint64_t>(
      std::count_if(info.listing.tied_to.begin(), info.listing.tied_to.end(), [](auto to) { return to >= 0; }));
  std::error_code ignored;
  info.file_bytes = std::filesystem::file_size(info.address.path, ignored);
  return info;
}

std::string list_counts(const Counts& counts) {
  std::string text;
  for (std::size_t i = 0; i < std::min(counts.size(), kMaxShown); ++i) {
    text += (i == 0 ? "" : ", ") + core::printable(counts[i].first) + " (" + core::format_count(counts[i].second) + ")";
  }
  return text + (counts.size() > kMaxShown ? ", ..." : "");
}

void print_state_dicts(Output& out, const Info& info) {
  for (std::size_t i = 0; i < std::min(info.state_dicts.size(), kMaxShown); ++i) {
    const ckpt::StateDictRef& dict = info.state_dicts[i];
    std::string name = dict.name.empty() ? "the top" : core::quote(dict.name);
    out.print("  state dict   " + name + ": " + count_of(dict.tensors, "tensor"));
    for (const auto& [prefix, count] : wrappers_of(*dict.dict)) {
      out.print(", " + core::format_count(count) + " behind '" + prefix + "'");
    }
    out.print("\n");
  }
  if (info.state_dicts.size() > kMaxShown) {
    out.print("               and " + core::format_count(info.state_dicts.size() - kMaxShown) + " more\n");
  }
}

void print_values(Output& out, const Info& info) {
  const std::vector<ckpt::NamedValue>& values = info.listing.values;
  for (std::size_t i = 0; i < std::min(values.size(), kMaxShown); ++i) {
    out.print("  value        " + core::printable(values[i].name) + " = " + ckpt::value_text(values[i].value) + "\n");
  }
  if (values.size() > kMaxShown) {
    out.print("               and " + core::format_count(values.size() - kMaxShown) + " more (ckpt ls --values)\n");
  }
  for (const auto& [key, text] : info.checkpoint.metadata) {
    out.print("  metadata     " + core::printable(key) + " = " + core::quote(text, 120) + "\n");
  }
}

void print_info(Output& out, const Info& info) {
  const Listing& listing = info.listing;
  out.print_heading(core::printable(info.address.text()));
  out.print("\n  format       " + format_title(info.checkpoint) + " (" + info.checkpoint.format + ")\n");
  out.print("  file size    " + core::format_size(info.file_bytes) + "\n");
  out.print("  tensors      " + count_of(listing.tensors.size(), "tensor") + ", " +
            count_of(listing.elements, "element") + ", " + core::format_size(listing.bytes) + "\n");
  if (!listing.tensors.empty()) {
    out.print("  dtypes       " + list_counts(info.dtypes) + "\n");
    out.print("  locations    " + list_counts(info.locations) + "\n");
  }
  if (info.tied > 0) out.print("  tied         " + count_of(info.tied, "tensor") + " share a storage with another\n");
  print_state_dicts(out, info);
  print_values(out, info);
}

void write_counts(ckpt::JsonWriter& json, std::string_view key, const Counts& counts) {
  json.key(key).begin_object();
  for (const auto& [name, count] : counts) json.key(name).value(count);
  json.end_object();
}

void write_state_dict(ckpt::JsonWriter& json, const ckpt::StateDictRef& dict) {
  json.begin_object();
  json.key("name").value(dict.name);
  json.key("tensors").value(static_cast<std::uint64_t>(dict.tensors));
  write_counts(json, "wrappers", wrappers_of(*dict.dict));
  json.key("versions").begin_object();
  for (const auto& [module, version] : ckpt::module_versions(*dict.dict)) json.key(module).value(version);
  json.end_object();
  json.end_object();
}

void write_json(ckpt::JsonWriter& json, const Info& info, const ckpt::Report& report) {
  json.begin_object();
  json.key("path").value(info.address.shown());
  json.key("format").value(info.checkpoint.format);
  if (!info.address.at.empty()) json.key("at").value(info.address.at);
  json.key("file_bytes").value(info.file_bytes);
  json.key("tensors").value(static_cast<std::uint64_t>(info.listing.tensors.size()));
  json.key("elements").value(info.listing.elements);
  json.key("bytes").value(info.listing.bytes);
  json.key("tied").value(info.tied);
  write_counts(json, "dtypes", info.dtypes);
  write_counts(json, "locations", info.locations);
  json.key("state_dicts").begin_array();
  for (const ckpt::StateDictRef& dict : info.state_dicts) write_state_dict(json, dict);
  json.end_array();
  json.key("plain_values").value(static_cast<std::uint64_t>(info.listing.values.size()));
  write_metadata(json, info.checkpoint);
  write_report(json, report);
  json.end_object();
}

int run(Context& context, const Options& options) {
  ckpt::JsonWriter json(2);
  if (options.files.size() > 1) json.begin_array();
  for (const std::string& file : options.files) {
    ckpt::Report report;
    Info info = examine(options, file, report);
    say_report(options, info.address.path, report);
    if (options.json) {
      write_json(json, info, report);
    } else {
      print_info(context.out, info);
    }
  }
  if (options.files.size() > 1) json.end_array();
  if (options.json) context.out.print(json.text() + "\n");
  return 0;
}

}  // namespace

void add_info(CLI::App& app, Command& chosen) {
  CLI::App& command = add_command(app, "info", "ckpt info best.pth",
                                  "Say what a file is: format, sizes, devices, state dicts, wrappers, plain values.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "checkpoint; FILE::path looks there only")->required()->type_name("");
  add_read_options(command, *options);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
