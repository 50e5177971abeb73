#include "tools/ckpt/commands/stat_spectral.h"

#include <cmath>
#include <map>

#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/output/chart.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

constexpr std::size_t kNamed = 20;

/// A number that a sketch only bounds from below.
std::string at_least(const ckpt::MatrixStats& m, const std::string& text) {
  return m.sketched > 0 ? ">= " + text : text;
}

void print_left_out(Output& out, const ckpt::SpectralReport& report) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [name, why] : report.left_out) by_reason[why].push_back(core::printable(name));
  for (auto& [why, names] : by_reason) {
    const std::size_t count = names.size();
    if (count > kNamed) names.resize(kNamed);
    const std::string more =
        count > kNamed ? " and " + core::format_count(count - kNamed) + " more (--json has all)" : "";
    out.print_warning("left out");
    out.print(" (" + why + "): " + core::join(names, ", ") + more + "\n");
  }
}

void write_matrix(ckpt::JsonWriter& json, const ckpt::MatrixStats& m) {
  json.begin_object();
  json.key("name").value(m.name);
  json.key("dtype").value(ckpt::type_name(*m.entry));
  json.key("rows").value(m.rows);
  json.key("columns").value(m.columns);
  json.key("method").value(m.sketched > 0 ? "sketch" : "exact");
  if (m.sketched > 0) json.key("sketch").value(m.sketched);
  json.key("frobenius").value(m.frobenius);
  json.key("spectral").value(m.spectral);
  json.key("stable_rank").value(m.stable_rank);
  json.key("effective_rank");
  m.effective_rank ? json.value(*m.effective_rank) : json.null();
  json.key(m.sketched > 0 ? "rank_at_least" : "rank").value(m.rank);
  json.key(m.sketched > 0 ? "condition_at_least" : "condition");
  std::isfinite(m.condition) ? json.value(m.condition) : json.null();
  json.key("largest").begin_array();
  for (double value : m.largest) json.value(value);
  json.end_array();
  json.end_object();
}

}  // namespace

ckpt::SpectralOptions SpectralFlags::options() const {
  ckpt::SpectralOptions out;
  out.time_limit = time_limit;
  out.seed = seed;
  out.exact = exact;
  if (tolerance >= 0) out.tolerance = tolerance;
  return out;
}

void add_spectral_options(CommandSpec command, SpectralFlags& flags) {
  command.add_flag("--spectral", flags.wanted,
                   "singular values instead: norms, ranks and condition of every matrix; the weight of a convolution "
                   "counts as outputs x rest");
  command
      .add_option("--time-limit", flags.time_limit,
                  "of --spectral, in seconds; matrices that are not reached are named; 0: none (default: 60)")
      .type_name("S")
      .from(0);
  command
      .add_option(
          "--exact", flags.exact,
          "of --spectral: decompose matrices whose smaller side is at most N, look at others by a random sketch "
          "(default: 512)")
      .type_name("N");
  command.add_option("--seed", flags.seed, "of the sketches (default: 0)").type_name("N");
  command
      .add_option("--rank-tolerance", flags.tolerance,
                  "singular values below this part of the largest count as 0 (default: as numpy.linalg.matrix_rank)")
      .type_name("X")
      .from(0);
}

void print_spectral(Output& out, const ckpt::SpectralReport& report, const SpectralFlags& flags) {
  using Align = Table::Align;
  Table table({{"NAME"},
               {"MATRIX"},
               {"FROBENIUS", Align::right},
               {"SPECTRAL", Align::right},
               {"STABLE RANK", Align::right},
               {"EFFECTIVE", Align::right},
               {"RANK", Align::right},
               {"CONDITION", Align::right},
               {"HOW"}});
  bool sketched = false;
  for (const ckpt::MatrixStats& m : report.matrices) {
    sketched |= m.sketched > 0;
    const std::string condition = std::isfinite(m.condition) ? short_number(m.condition) : "inf";
    table.add_row({core::printable(m.name), std::to_string(m.rows) + " x " + std::to_string(m.columns),
                   short_number(m.frobenius), short_number(m.spectral), short_number(m.stable_rank),
                   m.effective_rank ? short_number(*m.effective_rank) : "-", at_least(m, std::to_string(m.rank)),
                   at_least(m, condition), m.sketched > 0 ? "sketch of " + std::to_string(m.sketched) : "exact"});
  }
  table.print(out);
  out.print(std::to_string(report.matrices.size()) + (report.matrices.size() == 1 ? " matrix" : " matrices") + ", " +
            count_of(report.others, "other tensor") + "\n");
  if (sketched) {
    out.print("a sketch sees the largest singular values; --exact N decomposes matrices of up to N x any (seed " +
              std::to_string(flags.seed) + ")\n");
  }
  print_left_out(out, report);
}

std::string spectral_json(const Input& input, const ckpt::SpectralReport& report, const SpectralFlags& flags) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("path").value(input.address.text());
  json.key("seed").value(flags.seed);
  json.key("matrices").begin_array();
  for (const ckpt::MatrixStats& m : report.matrices) write_matrix(json, m);
  json.end_array();
  json.key("left_out").begin_array();
  for (const auto& [name, why] : report.left_out) {
    json.begin_object().key("name").value(name).key("why").value(why).end_object();
  }
  json.end_array();
  json.key("other_tensors").value(report.others);
  write_report(json, input.report);
  json.end_object();
  return json.take() + "\n";
}

}  // namespace cli
