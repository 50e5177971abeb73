// What `git diff` compares: a checkpoint as text.

#include "libckpt/analyze/digest.h"
#include "libckpt/analyze/stats.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/git_driver.h"
#include "tools/ckpt/hints.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/output.h"

namespace cli {
namespace {

std::string number(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return buffer;
}

std::string line_of(const ckpt::DigestResult::Tensor& tensor, const ckpt::TensorStats& stats) {
  const ckpt::Entry& entry = *tensor.entry;
  std::string line =
      core::printable(tensor.name) + ": " + std::string(core::name(entry.dtype)) + " " + core::to_list(entry.shape);
  if (entry.location != "cpu") line += " on " + core::printable(entry.location);
  if (stats.numbers && stats.finite() > 0) {
    line += ", " + number(stats.min) + " to " + number(stats.max) + ", mean " + number(stats.mean) + ", deviation " +
            number(stats.deviation);
  }
  if (stats.nan > 0) line += ", " + core::format_count(stats.nan) + " NaN";
  if (stats.inf > 0) line += ", " + core::format_count(stats.inf) + " infinite";
  return line + ", content " + to_hex(tensor.content).substr(0, 16) + "\n";
}

std::string describe(const ckpt::Checkpoint& checkpoint) {
  Listing listing = make_listing(checkpoint.root);
  ckpt::DigestResult digest = ckpt::digest(checkpoint.root);
  ckpt::ModelStats stats = ckpt::stats(ckpt::list_entries(checkpoint.root), {.bins = 0});
  std::string text = format_title(checkpoint) + ": " + count_of(listing.tensors.size(), "tensor") + ", " +
                     count_of(listing.elements, "element") + ", " + core::format_size(listing.bytes) + ", digest " +
                     to_hex(digest.model) + "\n";
  for (const auto& [key, value] : checkpoint.metadata) {
    text += "metadata " + core::printable(key) + " = " + core::quote(value, 2000) + "\n";
  }
  for (const ckpt::NamedValue& value : listing.values) {
    text += core::printable(value.name) + " = " + ckpt::value_text(value.value, 2000) + "\n";
  }
  for (std::size_t i = 0; i < digest.tensors.size(); ++i) text += line_of(digest.tensors[i], stats.tensors[i].stats);
  return text;
}

}  // namespace

std::string text_of_checkpoint(const std::filesystem::path& file) {
  try {
    return describe(ckpt::open(file, {.lenient = true, .foreign_objects = true}));
  } catch (const core::Error& error) {
    std::error_code ignored;
    std::uint64_t size = std::filesystem::file_size(file, ignored);
    return "no checkpoint that ckpt can read (" + core::format_size(size) +
           "): " + core::printable(with_advice(error.message(), ckpt::hint_of(error))) + "\n";
  }
}

}  // namespace cli
