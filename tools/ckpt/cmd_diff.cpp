// ckpt diff: what differs between two checkpoints of any formats.

#include "libckpt/analyze/diff.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/address.h"
#include "tools/ckpt/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/listing.h"
#include "tools/ckpt/progress.h"

namespace cli {
namespace {

using Kind = ckpt::Difference::Kind;

struct Options : ReadOptions {
  std::string a;
  std::string b;
  ckpt::DiffOptions diff;
};

/// A checkpoint cut down to the place that was named.
ckpt::Checkpoint open_at(const Options& options, const std::string& file, ckpt::Report& report) {
  Address address = parse_address(file);
  ckpt::Checkpoint checkpoint = ckpt::open(address.path, options.open(report));
  checkpoint.root =
      core::with_context(address.path.string(), [&] { return ckpt::value_at(checkpoint.root, address.at); });
  say_report(options, address.path, report);
  return checkpoint;
}

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g", value);
  return buffer;
}

std::string line_of(const ckpt::Difference& d) {
  std::string name = core::printable(d.name);
  switch (d.kind) {
    case Kind::only_in_a:
      return "- " + name + "  " + d.a;
    case Kind::only_in_b:
      return "+ " + name + "  " + d.b;
    case Kind::values: {
      if (d.differing == 0) return "~ " + name + "  " + d.a + " -> " + d.b;
      std::string line =
          "~ " + name + "  " + core::format_count(d.differing) + " of " + count_of(d.elements, "element") + " differ";
      return d.max_difference ? line + ", by up to " + number_text(*d.max_difference) : line;
    }
    default: {
      std::string kind = d.kind == Kind::plain_value ? "" : std::string(ckpt::name(d.kind)) + " ";
      return "~ " + name + "  " + kind + core::printable(d.a) + " -> " + core::printable(d.b);
    }
  }
}

void print_result(Output& out, const ckpt::DiffResult& result) {
  for (const ckpt::Difference& difference : result.differences) out.print(line_of(difference) + "\n");
  for (const ckpt::Difference& note : result.notes) out.print("not counted: " + line_of(note).substr(2) + "\n");
  std::string compared = core::format_count(result.tensors_equal) + " of " +
                         count_of(result.tensors_compared, "common tensor") + " equal, " +
                         core::format_size(result.bytes_compared) + " compared\n";
  out.print((result.equal() ? "no difference: " : count_of(result.differences.size(), "difference") + ": ") + compared);
}

void write_difference(ckpt::JsonWriter& json, const ckpt::Difference& d) {
  json.begin_object();
  json.key("kind").value(ckpt::name(d.kind));
  json.key("name").value(d.name);
  if (!d.a.empty()) json.key("a").value(d.a);
  if (!d.b.empty()) json.key("b").value(d.b);
  if (d.differing > 0) {
    json.key("elements").value(d.elements);
    json.key("differing").value(d.differing);
    json.key("max_difference");
    d.max_difference ? json.value(*d.max_difference) : json.null();
  }
  json.end_object();
}

std::string json_text(const Options& options, const ckpt::DiffResult& result) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("a").value(options.a);
  json.key("b").value(options.b);
  json.key("equal").value(result.equal());
  json.key("tensors_compared").value(result.tensors_compared);
  json.key("tensors_equal").value(result.tensors_equal);
  json.key("bytes_compared").value(result.bytes_compared);
  json.key("differences").begin_array();
  for (const ckpt::Difference& difference : result.differences) write_difference(json, difference);
  json.end_array();
  json.key("notes").begin_array();
  for (const ckpt::Difference& note : result.notes) write_difference(json, note);
  json.end_array();
  json.end_object();
  return json.take() + "\n";
}

int run(Context& context, const Options& options) {
  ckpt::Report report_a;
  ckpt::Report report_b;
  ckpt::Checkpoint a = open_at(options, options.a, report_a);
  ckpt::Checkpoint b = open_at(options, options.b, report_b);
  ckpt::DiffResult result;
  {
    ProgressBar bar("comparing", !options.quiet);
    ckpt::DiffOptions diff = options.diff;
    diff.progress = bar.hook();
    result = ckpt::diff(a, b, diff);
  }
  if (options.json) {
    context.out.print(json_text(options, result));
  } else if (!options.quiet) {
    print_result(context.out, result);
  }
  return result.equal() ? kDone : kNo;
}

}  // namespace

void add_diff(CLI::App& app, Command& chosen) {
  CLI::App& command = add_command(app, "diff", "ckpt diff old.pth new.safetensors",
                                  "Compare two checkpoints of any formats, bit for bit; exit 1 when they differ.");
  auto options = std::make_shared<Options>();
  command.add_option("A", options->a, "checkpoint, or FILE::path")->required()->type_name("");
  command.add_option("B", options->b, "checkpoint, or FILE::path")->required()->type_name("");
  command.add_flag("--order", options->diff.order, "the order of tensors counts");
  command.add_flag("--metadata", options->diff.metadata, "file metadata and module versions count");
  command.add_flag("--locations", options->diff.locations, "device tags count");
  add_read_options(command, *options);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
