// ckpt ls (also: inspect): the tensors of a file, one a line.

#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/address.h"
#include "tools/ckpt/commands.h"
#include "tools/ckpt/listing.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::vector<std::string> files;
  bool values = false;
};

std::string notes_of(const Listing& listing, std::size_t index) {
  const ckpt::Entry& entry = *listing.tensors[index].entry;
  std::string notes;
  std::ptrdiff_t tied = listing.tied_to[index];
  if (tied >= 0 && static_cast<std::size_t>(tied) != index) {
    notes = "shares " + core::quote(listing.tensors[static_cast<std::size_t>(tied)].name);
  }
  if (!entry.bytes) notes += (notes.empty() ? "" : ", ") + std::string("no values");
  return notes;
}

void print_table(Output& out, const Listing& listing) {
  Table table({{"NAME"}, {"DTYPE"}, {"SHAPE"}, {"LOCATION"}, {"SIZE", Table::Align::right}, {""}});
  for (std::size_t i = 0; i < listing.tensors.size(); ++i) {
    const ckpt::Entry& entry = *listing.tensors[i].entry;
    table.add_row({core::printable(listing.tensors[i].name), std::string(core::name(entry.dtype)),
                   core::to_list(entry.shape), core::printable(entry.location), core::format_size(entry.byte_size()),
                   notes_of(listing, i)});
  }
  table.print(out);
}

void print_values(Output& out, const Listing& listing) {
  Table table({{"VALUE"}, {"TYPE"}, {""}});
  for (const ckpt::NamedValue& value : listing.values) {
    table.add_row(
        {core::printable(value.name), core::printable(ckpt::type_text(value.value)), ckpt::value_text(value.value)});
  }
  if (!listing.values.empty() && !listing.tensors.empty()) out.print("\n");
  table.print(out);
}

void print_summary(Output& out, const Listing& listing, const ckpt::Checkpoint& checkpoint) {
  out.print(count_of(listing.tensors.size(), "tensor") + ", " + count_of(listing.elements, "element") + ", " +
            core::format_size(listing.bytes));
  if (!listing.values.empty()) out.print("; " + count_of(listing.values.size(), "plain value"));
  out.print(" in a " + format_title(checkpoint) + "\n");
}

/// What has been written so far goes out, so that a long list needs no buffer of its size.
void print_pending(Output& out, ckpt::JsonWriter& json) {
  constexpr std::size_t kPiece = 32 << 10;
  if (json.text().size() >= kPiece) out.print(json.take());
}

void write_json(Output& out, ckpt::JsonWriter& json, const Address& address, const ckpt::Checkpoint& checkpoint,
                const Listing& listing, const ckpt::Report& report) {
  json.begin_object();
  json.key("path").value(address.shown());
  json.key("format").value(checkpoint.format);
  if (!address.at.empty()) json.key("at").value(address.at);
  write_metadata(json, checkpoint);
  json.key("elements").value(listing.elements);
  json.key("bytes").value(listing.bytes);
  write_report(json, report);
  json.key("tensors").begin_array();
  for (std::size_t i = 0; i < listing.tensors.size(); ++i) {
    write_tensor(json, listing, i);
    print_pending(out, json);
  }
  json.end_array();
  json.key("values").begin_array();
  for (const ckpt::NamedValue& value : listing.values) {
    write_value(json, value);
    print_pending(out, json);
  }
  json.end_array();
  json.end_object();
}

void print_file(Context& context, const Options& options, const Address& address, const ckpt::Checkpoint& checkpoint,
                const Listing& listing) {
  Output& out = context.out;
  if (options.quiet) {
    for (const ckpt::NamedEntry& tensor : listing.tensors) out.print(core::printable(tensor.name) + "\n");
    return;
  }
  if (options.files.size() > 1) out.print(core::printable(address.text()) + ":\n");
  print_table(out, listing);
  if (options.values) print_values(out, listing);
  print_summary(out, listing, checkpoint);
}

struct Listed {
  ckpt::Checkpoint checkpoint;
  Listing listing;
};

void list_file(Context& context, const Options& options, const std::string& file, ckpt::JsonWriter& json) {
  Address address = parse_address(file);
  ckpt::Report report;
  auto listed = std::make_shared<Listed>();
  context.kept = listed;
  listed->checkpoint = ckpt::open(address.path, options.open(report));
  core::with_context(address.path.string(),
                     [&] { listed->listing = make_listing(ckpt::value_at(listed->checkpoint.root, address.at)); });
  say_report(options, address.path, report);
  if (options.json) return write_json(context.out, json, address, listed->checkpoint, listed->listing, report);
  print_file(context, options, address, listed->checkpoint, listed->listing);
}

int run(Context& context, const Options& options) {
  ckpt::JsonWriter json;
  if (options.files.size() > 1) json.begin_array();
  for (const std::string& file : options.files) {
    bool spaced = !options.json && !options.quiet && &file != &options.files.front();
    if (spaced) context.out.print("\n");
    list_file(context, options, file, json);
  }
  if (options.files.size() > 1) json.end_array();
  if (options.json) context.out.print(json.take() + "\n");
  return 0;
}

}  // namespace

void add_ls(CLI::App& app, Command& chosen) {
  CLI::App& command = add_command(app, "ls", "ckpt ls net.pth", "List the tensors of a file (also: ckpt inspect).");
  command.alias("inspect");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "checkpoint; FILE::path lists what is there")->required()->type_name("");
  command.add_flag("--values", options->values, "plain values too (--json always has them)");
  add_read_options(command, *options);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
