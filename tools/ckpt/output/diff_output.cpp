#include "tools/ckpt/output/diff_output.h"

#include <algorithm>
#include <map>

#include "libcore/base/text.h"
#include "tools/ckpt/output/chart.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

using Kind = ckpt::Difference::Kind;

constexpr std::size_t kBars = 40;
constexpr std::size_t kNotes = 3;  // of a kind, unless all are asked for
const std::string kNorm = "\u2016A\u2212B\u2016/\u2016A\u2016 ";

std::string number_text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3g", value);
  return buffer;
}

/// "NaN: 3 in A, 0 in B", "" when there is none.
std::string nan_text(const ckpt::Difference& d) {
  if (d.nans_a == 0 && d.nans_b == 0) return "";
  return "NaN: " + core::format_count(d.nans_a) + " in A, " + core::format_count(d.nans_b) + " in B";
}

/// "1 of 2 elements differ, by up to 2 (relative 0.5, 8388608 ULP, cosine 0.9, norm 0.9)".
std::string values_text(const ckpt::Difference& d) {
  std::string line = core::format_count(d.differing) + " of " + count_of(d.elements, "element") + " differ";
  if (d.beyond != d.differing) line += ", " + core::format_count(d.beyond) + " beyond the tolerance";
  if (std::string nans = nan_text(d); !nans.empty()) line += ", " + nans;
  if (!d.max_difference || (*d.max_difference == 0 && d.nans_a != d.nans_b)) return line;
  line += ", by up to " + number_text(*d.max_difference);
  std::vector<std::string> numbers;
  if (d.max_relative) numbers.push_back("relative " + number_text(*d.max_relative));
  if (d.max_ulp) numbers.push_back(core::format_count(*d.max_ulp) + " ULP");
  if (d.cosine) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "cosine %.6g", *d.cosine);
    numbers.emplace_back(buffer);
  }
  if (d.relative_norm) numbers.push_back(kNorm + number_text(*d.relative_norm));
  return line + (numbers.empty() ? "" : " (" + core::join(numbers, ", ") + ")");
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
    write_number(json, "relative_norm", d.relative_norm);
    json.key("nans_a").value(d.nans_a);
    json.key("nans_b").value(d.nans_b);
  }
  if (d.verdict) json.key("verdict").value(static_cast<std::uint64_t>(*d.verdict));
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
  if (result.relative_norm.value_or(0) > 0)
    compared += ", " + kNorm + number_text(*result.relative_norm) + " where they differ";
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

/// How many differences each verdict explains.
std::vector<std::size_t> explained(const ckpt::DiffResult& result) {
  std::vector<std::size_t> counts(result.verdicts.size());
  for (const ckpt::Difference& d : result.differences) {
    if (d.verdict) ++counts[*d.verdict];
  }
  return counts;
}

void print_verdicts(Output& out, const ckpt::DiffResult& result) {
  for (std::size_t i = 0; i < result.verdicts.size(); ++i) {
    std::string start = i > 0 ? "also: " : result.equal() ? "in short: " : "A and B differ: ";
    out.print(start + one_line(result.verdicts[i]) + "\n");
  }
}

void print_differences(Output& out, const ckpt::DiffResult& result, DiffDetail detail) {
  std::vector<std::size_t> folded = explained(result);
  std::size_t left_out = 0;
  for (const ckpt::Difference& d : result.differences) {
    bool fold = detail != DiffDetail::all && d.verdict && folded[*d.verdict] > 2;
    left_out += fold ? 1 : 0;
    if (!fold) out.print(line_of(d) + "\n");
  }
  if (left_out > 0) {
    out.print("  " + count_of(left_out, "difference") + " explained above (--all lists them)\n");
  }
}

void print_notes(Output& out, const ckpt::DiffResult& result, DiffDetail detail) {
  std::map<Kind, std::size_t> seen;
  for (const ckpt::Difference& note : result.notes) {
    if (++seen[note.kind] <= kNotes || detail == DiffDetail::all) {
      out.print("not counted: " + line_of(note).substr(2) + "\n");
    }
  }
  for (const auto& [kind, count] : seen) {
    if (count <= kNotes || detail == DiffDetail::all) continue;
    out.print("not counted: " + core::format_count(count - kNotes) + " more of kind " + std::string(ckpt::name(kind)) +
              " (--all lists them)\n");
  }
}

}  // namespace

void print_diff(Output& out, const ckpt::DiffResult& result, DiffDetail detail) {
  bool silent = result.differences.empty() && result.notes.empty();
  if (!result.equal()) print_verdicts(out, result);
  out.print_tone(result.equal() ? Tone::good : Tone::bad, summary_of(result) + "\n");
  if (result.equal() && !silent) print_verdicts(out, result);
  if (detail == DiffDetail::summary) return;
  print_differences(out, result, detail);
  print_notes(out, result, detail);
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
  write_number(json, "relative_norm", result.relative_norm);
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
