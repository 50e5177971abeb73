#include "tools/ckpt/diff_output.h"

#include <algorithm>
#include <map>

#include "libcore/base/text.h"
#include "tools/ckpt/chart.h"
#include "tools/ckpt/listing.h"

namespace cli {
namespace {

using Kind = ckpt::Difference::Kind;

constexpr std::size_t kBars = 40;

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g", value);
  return buffer;
}

/// "1 of 2 elements differ, by up to 2 (relative 0.5, 8388608 ULP, cosine 0.9)".
std::string values_text(const ckpt::Difference& d) {
  std::string line = core::format_count(d.differing) + " of " + count_of(d.elements, "element") + " differ";
  if (d.beyond != d.differing) line += ", " + core::format_count(d.beyond) + " beyond the tolerance";
  if (!d.max_difference) return line;
  line += ", by up to " + number_text(*d.max_difference);
  std::vector<std::string> more;
  if (d.max_relative) more.push_back("relative " + number_text(*d.max_relative));
  if (d.max_ulp) more.push_back(core::format_count(*d.max_ulp) + " ULP");
  if (d.cosine) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "cosine %.6g", *d.cosine);
    more.emplace_back(buffer);
  }
  return line + (more.empty() ? "" : " (" + core::join(more, ", ") + ")");
}

/// What stands behind the name.
std::string change_text(const ckpt::Difference& d) {
  switch (d.kind) {
    case Kind::only_in_a:
      return core::printable(d.a);
    case Kind::only_in_b:
      return core::printable(d.b);
    case Kind::values:
      return d.elements == 0 ? core::printable(d.a) + " -> " + core::printable(d.b) : values_text(d);
    default: {
      std::string kind = d.kind == Kind::plain_value ? "" : std::string(ckpt::name(d.kind)) + " ";
      std::string line = kind + core::printable(d.a) + " -> " + core::printable(d.b);
      if (d.kind == Kind::dtype && d.max_difference && d.differing > 0) line += ", " + values_text(d);
      return line;
    }
  }
}

std::string line_of(const ckpt::Difference& d) {
  std::string sign = d.kind == Kind::only_in_a ? "- " : d.kind == Kind::only_in_b ? "+ " : "~ ";
  return sign + core::printable(d.name) + "  " + change_text(d);
}

void write_number(ckpt::JsonWriter& json, std::string_view key, const std::optional<double>& value) {
  json.key(key);
  value ? json.value(*value) : json.null();
}

void write_difference(ckpt::JsonWriter& json, const ckpt::Difference& d) {
  json.begin_object();
  json.key("kind").value(ckpt::name(d.kind));
  json.key("name").value(d.name);
  if (!d.a.empty()) json.key("a").value(d.a);
  if (!d.b.empty()) json.key("b").value(d.b);
  if (d.elements > 0) {
    json.key("elements").value(d.elements);
    json.key("differing").value(d.differing);
    json.key("beyond").value(d.beyond);
    write_number(json, "max_difference", d.max_difference);
    write_number(json, "max_relative", d.max_relative);
    json.key("max_ulp");
    d.max_ulp ? json.value(*d.max_ulp) : json.null();
    write_number(json, "cosine", d.cosine);
  }
  json.end_object();
}

void write_differences(ckpt::JsonWriter& json, std::string_view key, const std::vector<ckpt::Difference>& list) {
  json.key(key).begin_array();
  for (const ckpt::Difference& difference : list) write_difference(json, difference);
  json.end_array();
}

std::string summary_of(const ckpt::DiffResult& result) {
  std::string compared = core::format_count(result.tensors_equal) + " of " +
                         count_of(result.tensors_compared, "common tensor") + " equal, " +
                         core::format_size(result.bytes_compared) + " compared";
  return (result.equal() ? "no difference: " : count_of(result.differences.size(), "difference") + ": ") + compared;
}

void add_table(HtmlPage& page, const std::string& title, const std::vector<ckpt::Difference>& list) {
  if (list.empty()) return;
  HtmlPage::TableData table;
  table.title = title;
  table.columns = {{"kind"}, {"name"}, {"what"}};
  for (const ckpt::Difference& d : list) {
    table.rows.push_back({std::string(ckpt::name(d.kind)), core::printable(d.name), change_text(d)});
  }
  page.add_table(table);
}

/// The largest relative differences, largest first.
void add_bars(HtmlPage& page, const ckpt::DiffResult& result) {
  std::vector<const ckpt::Difference*> sorted;
  for (const ckpt::Difference& d : result.differences) {
    if (d.kind == Kind::values && d.max_relative) sorted.push_back(&d);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](auto* x, auto* y) { return *x->max_relative > *y->max_relative; });
  if (sorted.size() > kBars) sorted.resize(kBars);
  std::vector<HtmlPage::Bar> bars;
  for (const ckpt::Difference* d : sorted) {
    bars.push_back({core::printable(d->name), *d->max_relative, number_text(*d->max_relative)});
  }
  page.add_bars("largest relative differences", bars);
}

}  // namespace

void print_diff(Output& out, const ckpt::DiffResult& result) {
  for (const ckpt::Difference& difference : result.differences) out.print(line_of(difference) + "\n");
  for (const ckpt::Difference& note : result.notes) out.print("not counted: " + line_of(note).substr(2) + "\n");
  out.print_tone(result.equal() ? Tone::good : Tone::bad, summary_of(result) + "\n");
  if (result.differences.empty() && result.notes.empty()) return;
  for (const std::string& verdict : result.verdicts) out.print("in short: " + one_line(verdict) + "\n");
}

std::string diff_json(const Input& a, const Input& b, const ckpt::DiffResult& result) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("a").value(a.address.text());
  json.key("b").value(b.address.text());
  json.key("equal").value(result.equal());
  json.key("verdicts").begin_array();
  for (const std::string& verdict : result.verdicts) json.value(verdict);
  json.end_array();
  json.key("tensors_compared").value(result.tensors_compared);
  json.key("tensors_equal").value(result.tensors_equal);
  json.key("bytes_compared").value(result.bytes_compared);
  write_differences(json, "differences", result.differences);
  write_differences(json, "notes", result.notes);
  json.end_object();
  return json.take() + "\n";
}

HtmlPage diff_page(const Input& a, const Input& b, const ckpt::DiffResult& result) {
  HtmlPage page(a.address.text() + " and " + b.address.text());
  for (const std::string& verdict : result.verdicts) page.add_paragraph(verdict + ".");
  page.add_facts({{"A", a.address.text()},
                  {"B", b.address.text()},
                  {"differences", core::format_count(result.differences.size())},
                  {"common tensors", core::format_count(result.tensors_compared)},
                  {"equal", core::format_count(result.tensors_equal)},
                  {"compared", core::format_size(result.bytes_compared)}});
  add_bars(page, result);
  std::map<std::string, std::string> groups;
  for (const ckpt::Difference& d : result.differences) groups.emplace(d.name, ckpt::name(d.kind));
  std::vector<HtmlPage::Block> blocks;
  for (const ckpt::NamedEntry& e : ckpt::list_entries(a.checkpoint.root)) {
    auto known = groups.find(e.name);
    std::uint64_t bytes = e.entry->byte_size();
    blocks.push_back({core::printable(e.name), known == groups.end() ? "equal" : known->second,
                      static_cast<double>(bytes), core::format_size(bytes)});
  }
  page.add_layer_map("tensors of A", blocks);
  add_table(page, "differences", result.differences);
  add_table(page, "not counted", result.notes);
  return page;
}

}  // namespace cli
