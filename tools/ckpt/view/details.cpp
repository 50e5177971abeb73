#include "tools/ckpt/view/details.h"

#include "libckpt/analyze/diff.h"
#include "libckpt/analyze/stats.h"
#include "libckpt/analyze/tensor_text.h"
#include "libckpt/transform/slice_tensor.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/output/chart.h"
#include "tools/ckpt/output/visible_text.h"

namespace cli {
namespace {

void add_text(std::vector<std::string>& lines, const std::string& text) {
  for (std::string_view line : core::split(text, '\n')) lines.push_back(one_line(line));
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
}

void add_entry(std::vector<std::string>& lines, const ckpt::Entry& entry) {
  lines.push_back("shape   " + core::to_list(ckpt::value_shape(entry)));
  lines.push_back("dtype   " + core::printable(ckpt::type_name(entry)));
  lines.push_back("device  " + core::printable(entry.location));
  lines.push_back("size    " + core::format_size(entry.byte_size()) + ", " + core::format_count(entry.numel()) +
                  (entry.numel() == 1 ? " value" : " values"));
  if (entry.parameter) lines.emplace_back("a torch.nn.Parameter");
  if (entry.requires_grad) lines.emplace_back("requires grad");
  if (entry.view && entry.view->storage && entry.view->storage->bytes->size() > entry.byte_size()) {
    lines.push_back("a view of " + core::format_size(entry.view->storage->bytes->size()));
  }
}

void add_stats(std::vector<std::string>& lines, const ckpt::NamedEntry& named, const DetailOptions& options) {
  const ckpt::TensorStats s = ckpt::stats({named}, {.threads = options.threads}).tensors.at(0).stats;
  if (!s.numbers) return;
  lines.emplace_back();
  lines.push_back(core::format_count(s.zeros) + " zero, " + core::format_count(s.nan) + " NaN, " +
                  core::format_count(s.inf) + " infinite");
  if (s.finite() == 0) return;
  lines.push_back("from " + short_number(s.min) + " to " + short_number(s.max) + ", mean " + short_number(s.mean) +
                  ", std " + short_number(s.deviation) + ", norm " + short_number(s.norm));
  add_text(lines, bar_chart(s.histogram, std::min<std::size_t>(options.width / 2, 50)));
}

void add_values(std::vector<std::string>& lines, ckpt::EntryPtr entry, const DetailOptions& options) {
  lines.emplace_back();
  if (!options.slice.empty()) {
    entry = ckpt::sliced(*entry, options.slice);
    lines.push_back("[" + core::printable(options.slice) + "]");
  }
  add_text(lines, ckpt::tensor_text(*entry, {.width = options.width}));
}

ckpt::Checkpoint holding(const std::string& name, const ckpt::EntryPtr& entry) {
  ckpt::Dict dict;
  dict.items.emplace_back(ckpt::Value::text(name), ckpt::Value::tensor(entry));
  ckpt::Checkpoint out;
  out.root = ckpt::Value::dict(std::move(dict));
  return out;
}

ckpt::DiffResult compared(const ViewTensor& tensor, unsigned threads) {
  return ckpt::diff(holding(tensor.name, tensor.first), holding(tensor.name, tensor.second),
                    {.verdicts = false, .threads = threads});
}

void add_difference(std::vector<std::string>& lines, const ViewTensor& tensor, const DetailOptions& options) {
  if (!tensor.first || !tensor.second) {
    if (tensor.sameness == Sameness::only_first) lines.emplace_back("only in the first file");
    if (tensor.sameness == Sameness::only_second) lines.emplace_back("only in the second file");
    return;
  }
  lines.emplace_back();
  if (tensor.sameness == Sameness::other_form) {
    lines.emplace_back("in the second file:");
    add_entry(lines, *tensor.second);
    return;
  }
  const ckpt::DiffResult result = compared(tensor, options.threads);
  if (result.equal()) lines.emplace_back("the second file has the same values");
  for (const ckpt::Difference& d : result.differences) {
    std::string line =
        core::format_count(d.differing) + " of " + core::format_count(d.elements) + " values differ in the second file";
    if (d.max_difference) line += ", by at most " + short_number(*d.max_difference);
    if (d.cosine) line += ", cosine " + short_number(*d.cosine);
    lines.push_back(line);
  }
}

}  // namespace

std::vector<std::string> fact_lines(const ViewTensor& tensor) {
  std::vector<std::string> lines = {core::printable(tensor.name)};
  add_entry(lines, tensor.entry());
  return lines;
}

std::vector<std::string> detail_lines(const ViewTensor& tensor, const DetailOptions& options) {
  std::vector<std::string> lines = fact_lines(tensor);
  const ckpt::EntryPtr& entry = tensor.first ? tensor.first : tensor.second;
  try {
    const bool reads = options.read_all || entry->byte_size() <= kReadAtOnce;
    if (!reads) {
      lines.emplace_back();
      lines.push_back("v reads all " + core::format_size(entry->byte_size()) + " for range and histogram");
    } else {
      if (tensor.second || tensor.sameness == Sameness::only_first) add_difference(lines, tensor, options);
      add_stats(lines, {{}, tensor.name, entry}, options);
    }
    add_values(lines, entry, options);
  } catch (const core::Error& error) {
    lines.push_back(one_line(error.what()));
  }
  return lines;
}

void compare_values(ViewTensor& tensor, unsigned threads) {
  if (tensor.sameness != Sameness::unknown || !tensor.first || !tensor.second) return;
  tensor.sameness = compared(tensor, threads).equal() ? Sameness::equal : Sameness::other_values;
}

}  // namespace cli
