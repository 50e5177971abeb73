// ckpt stat: what the values of tensors are like, and a gate for those that should not be.

#include <algorithm>

#include "libckpt/analyze/stats.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/stat_spectral.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/input.h"
#include "tools/ckpt/output/chart.h"
#include "tools/ckpt/output/html.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"

namespace cli {
namespace {

constexpr std::size_t kSpark = 12;
constexpr std::size_t kChart = 50;
constexpr std::size_t kHtmlHistograms = 200;

struct Options : ReadOptions {
  bool dequantize = false;
  std::string file;
  ckpt::Selection selection;
  std::vector<std::string> fail_on;
  bool histogram = false;
  std::string html;
  SpectralFlags spectral;
};

/// A tensor that --fail-on names.
struct Finding {
  std::string what;
  std::string name;
  std::uint64_t count;
};

bool wants(const Options& options, const std::string& what) {
  auto named = [&](const std::string& name) {
    return std::find(options.fail_on.begin(), options.fail_on.end(), name) != options.fail_on.end();
  };
  return named(what) || named("any");
}

std::vector<Finding> find_bad(const Options& options, const ckpt::ModelStats& model) {
  std::vector<Finding> out;
  for (const ckpt::NamedStats& tensor : model.tensors) {
    const ckpt::TensorStats& s = tensor.stats;
    if (s.nan > 0 && wants(options, "nan")) out.push_back({"nan", tensor.name, s.nan});
    if (s.inf > 0 && wants(options, "inf")) out.push_back({"inf", tensor.name, s.inf});
    bool zero = s.values > 0 && s.zeros == s.values;
    if (zero && wants(options, "zero")) out.push_back({"zero", tensor.name, s.zeros});
  }
  return out;
}

std::string count_or_dash(std::uint64_t count) {
  return count == 0 ? "-" : core::format_count(count);
}

std::vector<std::string> cells_of(const std::string& name, const std::string& type, const std::string& shape,
                                  const ckpt::TensorStats& s) {
  bool some = s.numbers && s.finite() > 0;
  auto number = [&](double value) { return some ? short_number(value) : "-"; };
  return {name,
          type,
          shape,
          number(s.min),
          number(s.max),
          number(s.mean),
          number(s.deviation),
          count_or_dash(s.zeros),
          count_or_dash(s.nan),
          count_or_dash(s.inf),
          sparkline(s.histogram, kSpark)};
}

std::vector<Table::Column> columns() {
  using Align = Table::Align;
  return {{"NAME"},
          {"DTYPE"},
          {"SHAPE"},
          {"MIN", Align::right},
          {"MAX", Align::right},
          {"MEAN", Align::right},
          {"STD", Align::right},
          {"ZEROS", Align::right},
          {"NAN", Align::right},
          {"INF", Align::right},
          {"VALUES"}};
}

std::vector<std::vector<std::string>> rows_of(const ckpt::ModelStats& model) {
  std::vector<std::vector<std::string>> rows;
  for (const ckpt::NamedStats& t : model.tensors) {
    rows.push_back(cells_of(core::printable(t.name), core::printable(ckpt::type_name(*t.entry)),
                            core::to_list(ckpt::value_shape(*t.entry)), t.stats));
  }
  rows.push_back(cells_of("all floats", "", "", model.total));
  return rows;
}

void print_table(Output& out, const ckpt::ModelStats& model) {
  Table table(columns());
  for (const std::vector<std::string>& c : rows_of(model)) {
    table.add_row({c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8], c[9], c[10]});
  }
  table.print(out);
}

void print_result(Output& out, const Options& options, const ckpt::ModelStats& model,
                  const std::vector<Finding>& findings) {
  print_table(out, model);
  if (options.histogram) {
    for (const ckpt::NamedStats& tensor : model.tensors) {
      if (tensor.stats.histogram.counts.empty()) continue;
      out.print("\n" + core::printable(tensor.name) + "\n" + bar_chart(tensor.stats.histogram, kChart));
    }
  }
  if (!model.total.histogram.counts.empty()) {
    out.print("\nall floats: " + count_and_size(model.total.values) + " values, " +
              core::format_count(model.total.denormals) + " denormal, norm " + short_number(model.total.norm) + "\n");
    out.print(bar_chart(model.total.histogram, kChart));
  }
  for (const Finding& finding : findings) {
    std::string what = finding.what == "zero"
                           ? "all " + count_of(finding.count, "value") + " are zero"
                           : count_of(finding.count, "value") + (finding.what == "nan" ? " NaN" : " Inf");
    out.print_bad("found: ");
    out.print(core::quote(finding.name) + ": " + what + "\n");
  }
}

void write_stats(ckpt::JsonWriter& json, const ckpt::TensorStats& s) {
  json.key("values").value(s.values);
  json.key("nan").value(s.nan);
  json.key("inf").value(s.inf);
  json.key("zeros").value(s.zeros);
  json.key("negative").value(s.negative);
  json.key("denormals").value(s.denormals);
  bool some = s.finite() > 0;
  for (auto [key, value] :
       {std::pair("min", s.min), {"max", s.max}, {"mean", s.mean}, {"std", s.deviation}, {"norm", s.norm}}) {
    json.key(key);
    some ? json.value(value) : json.null();
  }
  json.key("histogram").begin_object();
  json.key("low").value(s.histogram.low);
  json.key("high").value(s.histogram.high);
  json.key("counts").begin_array();
  for (std::uint64_t count : s.histogram.counts) json.value(count);
  json.end_array();
  json.end_object();
}

std::string json_text(const Input& input, const ckpt::ModelStats& model, const std::vector<Finding>& findings) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("path").value(input.address.text());
  json.key("bytes").value(model.bytes);
  json.key("tensors").begin_array();
  for (const ckpt::NamedStats& tensor : model.tensors) {
    json.begin_object();
    json.key("name").value(tensor.name);
    json.key("dtype").value(ckpt::type_name(*tensor.entry));
    json.key("numbers").value(tensor.stats.numbers);
    if (tensor.stats.numbers) write_stats(json, tensor.stats);
    json.end_object();
  }
  json.end_array();
  json.key("total").begin_object();
  write_stats(json, model.total);
  json.end_object();
  json.key("findings").begin_array();
  for (const Finding& finding : findings) {
    json.begin_object();
    json.key("kind").value(finding.what);
    json.key("name").value(finding.name);
    json.key("count").value(finding.count);
    json.end_object();
  }
  json.end_array();
  write_report(json, input.report);
  json.end_object();
  return json.take() + "\n";
}

void write_html(Context& context, const Options& options, const Input& input, const ckpt::ModelStats& model) {
  HtmlPage page(input.address.text());
  page.add_facts({{"tensors", core::format_count(model.tensors.size())},
                  {"float values", count_and_size(model.total.values)},
                  {"NaN", core::format_count(model.total.nan)},
                  {"infinite", core::format_count(model.total.inf)},
                  {"denormal", core::format_count(model.total.denormals)},
                  {"mean", short_number(model.total.mean)},
                  {"standard deviation", short_number(model.total.deviation)}});
  auto add = [&](const std::string& title, const ckpt::ValueHistogram& h) {
    if (!h.counts.empty()) page.add_histogram(title, {h.low, h.high, h.counts});
  };
  add("all floats", model.total.histogram);
  page.add_table({.title = "tensors", .columns = columns(), .rows = rows_of(model)});
  page.add_heading("values of each tensor");
  std::size_t shown = 0;
  for (const ckpt::NamedStats& tensor : model.tensors) {
    if (shown++ == kHtmlHistograms) break;
    add(tensor.name, tensor.stats.histogram);
  }
  if (shown > kHtmlHistograms) page.add_paragraph("Only the first " + std::to_string(kHtmlHistograms) + " are drawn.");
  write_page(page, options.html, context.out);
}

std::vector<ckpt::NamedEntry> selected(const Options& options, const Input& input) {
  std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(input.checkpoint.root);
  ckpt::SelectionMatcher matcher(options.selection);
  for (const std::string& unused : matcher.unmatched(entries)) {
    throw core::Error(core::ErrorCode::key, "no tensor matches " + core::quote(unused));
  }
  std::erase_if(entries, [&](const ckpt::NamedEntry& e) { return !matcher.contains(e.name, *e.entry); });
  return entries;
}

ckpt::ModelStats examine(const Options& options, const Input& input) {
  const std::vector<ckpt::NamedEntry> entries = selected(options, input);
  ProgressBar bar(core::printable(input.address.shown()), !options.quiet);
  ckpt::StatsOptions how;
  how.threads = options.threads;
  how.progress = bar.hook();
  return ckpt::stats(entries, how);
}

int run_spectral(Context& context, const Options& options, Input& input) {
  const ckpt::SpectralReport report = core::with_context(input.address.shown(), [&] {
    ProgressBar bar(core::printable(input.address.shown()), !options.quiet);
    ckpt::SpectralOptions how = options.spectral.options();
    how.threads = options.threads;
    how.progress = bar.hook();
    return ckpt::spectral_stats(selected(options, input), how);
  });
  say_damage(options, input);
  if (options.json) {
    context.out.print(spectral_json(input, report, options.spectral));
  } else if (!options.quiet) {
    print_spectral(context.out, report, options.spectral);
  }
  return kDone;
}

int run(Context& context, const Options& options) {
  Input input = open_input(options, options.file, options.dequantize);
  if (options.spectral.wanted) return run_spectral(context, options, input);
  ckpt::ModelStats model = core::with_context(input.address.shown(), [&] { return examine(options, input); });
  say_damage(options, input);
  std::vector<Finding> findings = find_bad(options, model);
  if (!options.html.empty()) write_html(context, options, input, model);
  if (options.json) {
    context.out.print(json_text(input, model, findings));
  } else if (!options.quiet && options.html != "-") {
    print_result(context.out, options, model, findings);
  }
  return findings.empty() ? kDone : kNo;
}

}  // namespace

void add_stat(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "stat",
                                    "ckpt stat best.pth\n  ckpt stat --fail-on nan,inf best.pth\n  ckpt stat "
                                    "--spectral best.pth --time-limit 300",
                                    "Range, mean, spread, zeros, NaN and infinities of every tensor in one pass. "
                                    "With --fail-on, exit 1 when something bad is found.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->file, "checkpoint, or FILE::path").required().type_name("");
  add_selection_options(command, options->selection);
  command.add_option("--fail-on", options->fail_on, "any of nan, inf, zero (a tensor of only zeros), or any")
      .type_name("LIST")
      .separated_by(',')
      .one_value_each()
      .one_of({"nan", "inf", "zero", "any"});
  command.add_flag("--histogram", options->histogram, "draw the values of every tensor, not only of all together");
  command.add_option("--html", options->html, "write one page with histograms; - is standard output").type_name("PAGE");
  add_spectral_options(command, options->spectral);
  for (const char* other : {"--fail-on", "--histogram", "--html"}) {
    command.option("--spectral").excludes(command.option(other));
  }
  add_dequantize_option(command, options->dequantize);
  add_read_options(command, *options);
  add_io_option(command, *options);
  add_remote_options(command);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
