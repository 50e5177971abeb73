// The HTML page of `ckpt info`.

#include <algorithm>
#include <map>
#include <unordered_set>

#include "libckpt/analyze/branches.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/info_facts.h"
#include "tools/ckpt/output/folded_names.h"
#include "tools/ckpt/output/order.h"
#include "tools/ckpt/output/repeated_layers.h"

namespace cli {
namespace {

using Branches = std::vector<ckpt::Branch>;

constexpr std::size_t kLargest = 20;
constexpr std::size_t kMaxRows = 5000;  // a page stays a page

void add_dtypes(HtmlPage& page, const Info& info) {
  std::map<std::string, std::uint64_t> sums;
  std::unordered_set<const void*> seen;  // what several tensors share counts once
  for (const ListedTensor& tensor : info.listing.tensors) {
    bool fresh = tensor.entry->bytes && seen.insert(tensor.entry->bytes.get()).second;
    if (fresh) sums[ckpt::type_name(*tensor.entry)] += tensor.entry->byte_size();
  }
  std::vector<HtmlPage::Bar> bars;
  for (const auto& [dtype, count] : info.dtypes) {
    std::uint64_t bytes = sums[dtype];
    bars.push_back({dtype, static_cast<double>(bytes), core::format_size(bytes) + ", " + count_of(count, "tensor")});
  }
  page.add_bars("Bytes by type", bars);
}

void add_largest(HtmlPage& page, const Info& info) {
  std::vector<HtmlPage::Bar> bars;
  std::vector<std::size_t> order = ordered(info.listing, Order::size);
  for (std::size_t i = 0; i < std::min(order.size(), kLargest); ++i) {
    const ListedTensor& tensor = info.listing.tensors[order[i]];
    std::uint64_t bytes = tensor.entry->byte_size();
    bars.push_back({std::string(tensor.name), static_cast<double>(bytes),
                    core::format_size(bytes) + "  " + core::to_list(tensor.entry->shape)});
  }
  page.add_bars("Largest tensors", bars);
}

/// The branch at the second level that it lies in: what a model's parts are called.
std::string module_of(const Branches& branches, const ckpt::Branch& branch) {
  const ckpt::Branch* at = &branch;
  while (at->depth > 2) at = &branches[at->parent];
  if (at->leaf && at->depth > 0) at = &branches[at->parent];
  return at->name;
}

/// Modules that hold tensors themselves, each with what is directly in it.
void add_layers(HtmlPage& page, const Branches& branches) {
  std::vector<HtmlPage::Block> blocks;
  for (const ckpt::Branch& branch : branches) {
    if (!branch.leaf || branch.entry == nullptr) continue;
    const std::string& above = branches[branch.parent].name;
    std::string group(core::name(branch.entry->dtype));
    std::string outer = module_of(branches, branch);
    bool same = !blocks.empty() && blocks.back().label == above && blocks.back().group == group;
    if (!same) blocks.push_back({above.empty() ? branch.name : above, group, 0, "", outer});
    blocks.back().value += static_cast<double>(branch.bytes);
    blocks.back().text = core::format_size(static_cast<std::uint64_t>(blocks.back().value));
  }
  page.add_layer_map("Layers by bytes", blocks);
}

/// Repeated layers have one row, with the totals of one; no folds: each has its own.
void add_modules(HtmlPage& page, const Branches& branches, const std::vector<LayerFold>& folds) {
  constexpr std::uint64_t kDepth = 3;
  HtmlPage::TableData table{"Modules",
                            {{"module"},
                             {"tensors", Table::Align::right},
                             {"elements", Table::Align::right},
                             {"size", Table::Align::right},
                             {"repeated"}}};
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const ckpt::Branch& branch = branches[i];
    if (branch.leaf || branch.depth == 0 || branch.depth > kDepth || table.rows.size() >= kMaxRows) continue;
    LayerFold fold = folds.empty() ? LayerFold{1, branch.name} : whole_fold(branches, folds, i);
    if (fold.hidden) continue;
    table.rows.push_back({core::printable(fold.label), core::format_count(branch.tensors),
                          core::format_count(branch.elements), core::format_size(branch.bytes),
                          fold.count > 1 ? "\u00d7" + core::format_count(fold.count) : ""});
  }
  if (!table.rows.empty()) page.add_table(table);
}

void add_tensors(HtmlPage& page, const Info& info, const FoldedNames& folds) {
  HtmlPage::TableData table{"Tensors",
                            {{"name"}, {"dtype"}, {"shape"}, {"location"}, {"size", Table::Align::right}, {"notes"}}};
  std::size_t hidden = 0;
  for (std::size_t i = 0; i < info.listing.tensors.size(); ++i) {
    if (table.rows.size() >= kMaxRows) break;
    ListedName row = listed_name(info.listing, folds, i);
    hidden += row.hidden ? 1 : 0;
    if (row.hidden) continue;
    const ckpt::Entry& entry = *info.listing.tensors[i].entry;
    table.rows.push_back({row.name, std::string(core::name(entry.dtype)), core::to_list(entry.shape),
                          core::printable(entry.location), core::format_size(entry.byte_size()), row.notes});
  }
  if (hidden > 0) {
    page.add_paragraph("Repeated layers are shown once, with the size of one; ckpt info --html OUT --all shows each.");
  }
  if (!table.rows.empty()) page.add_table(table);
  if (table.rows.size() >= kMaxRows) {
    page.add_paragraph("The first " + core::format_count(kMaxRows) + " of " +
                       count_of(info.listing.tensors.size(), "tensor") + ".");
  }
}

}  // namespace

HtmlPage info_page(const Info& info, PageRows rows) {
  HtmlPage page(info.address.text());
  page.add_facts(facts_of(info));
  Branches branches = ckpt::branches(ckpt::value_at(info.checkpoint.root, info.address.at));
  add_layers(page, branches);
  add_dtypes(page, info);
  add_largest(page, info);
  bool fold = rows == PageRows::folded;
  add_modules(page, branches, fold ? fold_layers(branches, children_of(branches)) : std::vector<LayerFold>());
  add_tensors(page, info, fold ? fold_names(info.listing, branches) : FoldedNames());
  return page;
}

}  // namespace cli
