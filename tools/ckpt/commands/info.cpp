// ckpt info: what a file is, in a few lines, or as a page.

#include <algorithm>

#include "libckpt/format/spread.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/info_facts.h"
#include "tools/ckpt/exit_code.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::vector<std::string> files;
  std::string html;
  bool all = false;
};

void print_info(Output& out, const Info& info) {
  constexpr std::size_t kColumn = 13;
  out.print_heading(core::printable(info.address.text()));
  out.print("\n");
  for (const auto& [name, value] : facts_of(info)) {
    out.print("  " + name + std::string(std::max(name.size() + 1, kColumn) - name.size(), ' ') + value + "\n");
  }
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

/// Of a distributed checkpoint only.
void write_spread(ckpt::JsonWriter& json, const ckpt::Checkpoint& checkpoint) {
  std::optional<ckpt::Spread> spread = ckpt::spread_of(checkpoint);
  if (!spread) return;
  json.key("spread").begin_object();
  json.key("ranks").value(spread->ranks);
  json.key("imbalance").value(spread->imbalance());
  json.key("tensors_in_pieces").value(spread->tensors_in_pieces);
  json.key("pieces").value(spread->pieces);
  json.key("whole").value(spread->whole);
  json.key("replicated_pieces").value(spread->replicated_pieces);
  json.key("bytes_saved").value(spread->bytes_saved);
  json.key("parts").begin_array();
  for (const ckpt::SpreadPart& part : spread->parts) {
    json.begin_object().key("file").value(part.file).key("bytes").value(part.bytes).end_object();
  }
  json.end_array();
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
  json.key("parameters").value(info.parameters);
  json.key("bytes").value(info.listing.bytes);
  if (!info.schemes.empty()) write_counts(json, "quantized_layers", info.schemes);
  json.key("tied").value(info.tied);
  json.key("model_parameters").value(info.model_parameters);
  json.key("unused_bytes").value(info.unused_bytes);
  if (!info.compact_command.empty()) json.key("unused_command").value(info.compact_command);
  json.key("optimizers").begin_array();
  for (const OptimizerFact& o : info.optimizers) {
    json.begin_object().key("at").value(o.at).key("kind").value(o.kind);
    json.key("parameters").value(o.params).key("bytes").value(o.bytes).end_object();
  }
  json.end_array();
  write_counts(json, "dtypes", info.dtypes);
  write_counts(json, "locations", info.locations);
  write_counts(json, "codecs", info.codecs);
  json.key("state_dicts").begin_array();
  for (const ckpt::StateDictRef& dict : info.state_dicts) write_state_dict(json, dict);
  json.end_array();
  json.key("plain_values").value(static_cast<std::uint64_t>(info.listing.values.size()));
  write_spread(json, info.checkpoint);
  write_metadata(json, info.checkpoint);
  write_report(json, report);
  json.end_object();
}

int run(Context& context, const Options& options) {
  if (!options.html.empty() && options.files.size() > 1) {
    throw core::Error(core::ErrorCode::usage, "--html makes a page of one file; run it once for each");
  }
  if (options.all && options.html.empty()) {
    throw core::Error(core::ErrorCode::usage, "--all is for the page of --html; add --html OUT");
  }
  ckpt::JsonWriter json(2);
  int code = kDone;
  if (options.files.size() > 1) json.begin_array();
  for (const std::string& file : options.files) {
    ckpt::Report report;
    Address address = parse_address(file);
    auto kept = std::make_shared<Info>(examine(address, ckpt::open(address.path, options.look(report))));
    context.kept = kept;
    const Info& info = *kept;
    say_report(options, address.path, report);
    code = std::max(code, options.looked(report));
    if (!options.html.empty()) {
      write_page(info_page(info, options.all ? PageRows::all : PageRows::folded), options.html, context.out);
    } else if (options.json) {
      write_json(json, info, report);
    } else {
      print_info(context.out, info);
    }
  }
  if (options.files.size() > 1) json.end_array();
  if (options.json) context.out.print(json.text() + "\n");
  return code;
}

}  // namespace

void add_info(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "info", "ckpt info best.pth\n  ckpt info --html best.html best.pth",
                                    "Say what a file is: format, sizes, devices, state dicts, wrappers, plain values.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "checkpoint; FILE::path looks there only").required().type_name("");
  OptionSpec html =
      command.add_option("--html", options->html, "write a page with charts and a map of the layers instead")
          .type_name("OUT");
  command.add_flag("--all", options->all, "in the page, show each of the repeated layers");
  add_read_options(command, *options);
  add_remote_options(command);
  command.option("--json").excludes(html);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
