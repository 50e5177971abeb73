#include "tools/run/answers.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "libcore/base/text.h"
#include "libcore/ops/compare.h"
#include "libcore/ops/pointwise.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/tensor.h"

namespace cli {
namespace {

using zoo::Answer;

std::vector<double> softmax(const std::vector<double>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> shares;
  for (double logit : logits) shares.push_back(std::exp(logit - most));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

std::vector<RankedClass> ranked(const std::vector<double>& shares, const std::vector<double>& values,
                                std::int64_t top) {
  std::vector<RankedClass> all;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    all.push_back({static_cast<std::int64_t>(i), shares[i], values[i]});
  }
  const auto count = std::min(static_cast<std::size_t>(top), all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                    [](const RankedClass& a, const RankedClass& b) {
                      return a.value != b.value ? a.value > b.value : a.index < b.index;
                    });
  all.resize(count);
  return all;
}

/// Classes by how many pixels are theirs; those without any are left out.
std::vector<RankedClass> of_pixels(const core::Tensor& row, std::int64_t top) {
  std::vector<double> counts(static_cast<std::size_t>(row.size(0)));
  for (std::int64_t index : row.argmax(0).to_vector<std::int64_t>()) ++counts[static_cast<std::size_t>(index)];
  std::vector<double> shares = counts;
  const auto all = static_cast<double>(row.size(1) * row.size(2));
  for (double& share : shares) share /= all;
  std::vector<RankedClass> classes = ranked(shares, counts, top);
  std::erase_if(classes, [](const RankedClass& c) { return c.value == 0; });
  return classes;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * share);
  return text;
}

std::string number(double value, Answer answer) {
  const char* form = answer == Answer::pixels ? "%.0f" : answer == Answer::lengths ? "%.4f" : "%.3f";
  char text[32];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string_view share_title(Answer answer) {
  if (answer == Answer::pixels) return "PIXELS";
  return answer == Answer::lengths ? "LENGTH" : "PROBABILITY";
}

std::string share_text(double share, Answer answer) {
  return answer == Answer::lengths ? number(share, answer) : percent(share);
}

void print_quiet(Output& out, const InputAnswers& answers, Answer answer, const NameOf& name_of) {
  for (const RankedClass& c : answers.top) {
    char share[32];
    std::snprintf(share, sizeof share, "%.6g", c.share);
    const std::string name = name_of(c.index);
    out.print(core::printable(answers.name) + "\t" + std::to_string(c.index) + "\t" + share +
              (name.empty() ? "" : "\t" + core::printable(name)) + "\n");
  }
  if (answer == Answer::values) out.print(core::printable(answers.name) + "\t" + core::to_list(answers.shape) + "\n");
}

}  // namespace

bool names_tokens(Answer answer) {
  return answer == Answer::next_token || answer == Answer::hidden_tokens;
}

InputAnswers answers_of(const core::Tensor& row, Answer answer, std::int64_t top) {
  InputAnswers answers;
  answers.shape = row.sizes();
  const std::vector<double> values = row.to_vector<double>();
  answers.nan = std::count_if(values.begin(), values.end(), [](double x) { return std::isnan(x); });
  if (!values.empty() && answers.nan == 0) {
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    answers.least = *least;
    answers.most = *most;
    answers.mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
  if (answer == Answer::values || values.empty() || answers.nan != 0) return answers;
  if (answer == Answer::pixels) {
    answers.top = of_pixels(row, top);
  } else {
    answers.top = ranked(answer == Answer::lengths ? values : softmax(values), values, top);
  }
  return answers;
}

void write_answers(ckpt::JsonWriter& json, const InputAnswers& answers, Answer answer, const NameOf& name_of) {
  json.key("path").value(answers.name);
  json.key("input").value(answers.what);
  json.key("shape").begin_array();
  for (std::int64_t size : answers.shape) json.value(size);
  json.end_array();
  if (answers.nan != 0) json.key("nan").value(answers.nan);
  json.key("min").value(answers.least).key("max").value(answers.most).key("mean").value(answers.mean);
  json.key("top").begin_array();
  for (const RankedClass& c : answers.top) {
    json.begin_object();
    json.key("class").value(c.index);
    if (const std::string name = name_of(c.index); !name.empty()) json.key("label").value(name);
    json.key(answer == Answer::pixels ? "share" : answer == Answer::lengths ? "length" : "probability").value(c.share);
    if (answer == Answer::pixels) json.key("pixels").value(static_cast<std::int64_t>(c.value));
    if (answer == Answer::classes || names_tokens(answer)) json.key("logit").value(c.value);
    json.end_object();
  }
  json.end_array();
}

void print_answers(Output& out, const InputAnswers& answers, Answer answer, const NameOf& name_of, bool quiet) {
  if (quiet) return print_quiet(out, answers, answer, name_of);
  out.print(core::printable(answers.name) + ": " + answers.what + "\n");
  if (answers.nan != 0) {
    out.print("  gives " + core::to_list(answers.shape) + ": " +
              count_of(static_cast<std::uint64_t>(answers.nan), "value") + " NaN\n");
    return;
  }
  if (answers.top.empty()) {
    out.print("  gives " + core::to_list(answers.shape) + ": from " + number(answers.least, answer) + " to " +
              number(answers.most, answer) + ", mean " + number(answers.mean, answer) + "\n");
    return;
  }
  const bool tokens = names_tokens(answer);
  const bool named = std::any_of(answers.top.begin(), answers.top.end(),
                                 [&](const RankedClass& c) { return !name_of(c.index).empty(); });
  Table table({{std::string(share_title(answer)), Table::Align::right},
               {answer == Answer::pixels    ? "COUNT"
                : answer == Answer::lengths ? ""
                                            : "LOGIT",
                Table::Align::right},
               {tokens ? "TOKEN" : "CLASS", Table::Align::right},
               {named ? (tokens ? "TEXT" : "LABEL") : ""}});
  for (const RankedClass& c : answers.top) {
    const std::string name = name_of(c.index);
    table.add_row({share_text(c.share, answer), answer == Answer::lengths ? "" : number(c.value, answer),
                   std::to_string(c.index), tokens && !name.empty() ? core::quote(name) : core::printable(name)});
  }
  table.print(out);
}

}  // namespace cli
