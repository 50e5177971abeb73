// ckpt tree: the modules of a file with what lies below each.

#include <algorithm>

#include "libckpt/analyze/branches.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/order.h"
#include "tools/ckpt/output/repeated_layers.h"

namespace cli {
namespace {

constexpr std::size_t kBar = 10;

struct Options : ReadOptions {
  std::vector<std::string> files;
  std::uint64_t depth = 3;
  bool tensors = false;
  bool all = false;
  bool fold = false;
  std::string sort = "file";
  Order order = Order::file;
};

using Branches = std::vector<ckpt::Branch>;

struct Shown {
  ckpt::Checkpoint checkpoint;
  Branches branches;
};

double share_of(const ckpt::Branch& branch, const ckpt::Branch& whole) {
  return whole.bytes == 0 ? 0 : static_cast<double>(branch.bytes) / static_cast<double>(whole.bytes);
}

std::string share_text(double share) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, " %5.1f%%", share * 100);
  auto filled = static_cast<std::size_t>(share * kBar + 0.5);
  return std::string(filled, '#') + std::string(kBar - std::min(kBar, filled), '.') + buffer;
}

std::string dtypes_of(const ckpt::Branch& branch) {
  std::string text;
  for (const auto& [dtype, count] : branch.dtypes) {
    text += (text.empty() ? "" : ", ") + std::string(core::name(dtype));
    if (branch.dtypes.size() > 1) text += " (" + core::format_count(count) + ")";
  }
  if (branch.entry != nullptr && branch.leaf) text += " " + core::to_list(branch.entry->shape);
  return text;
}

bool is_shown(const Options& options, const ckpt::Branch& branch) {
  return branch.depth <= options.depth && (options.tensors || !branch.leaf || branch.depth == 0);
}

/// Below each branch its own, by the chosen order.
BranchOrder sorted_children(const Branches& all, Order order) {
  BranchOrder below = children_of(all);
  if (order == Order::file) return below;
  auto less = [&](std::size_t a, std::size_t b) {
    if (order == Order::name) return natural_less(all[a].label, all[b].label);
    return order == Order::numel ? all[a].elements > all[b].elements : all[a].bytes > all[b].bytes;
  };
  for (std::vector<std::size_t>& children : below) std::stable_sort(children.begin(), children.end(), less);
  return below;
}

/// Branches in the order to show them, without those that a repeated layer stands for.
std::vector<std::size_t> arrange(const BranchOrder& below, const std::vector<LayerFold>& folds = {}) {
  std::vector<std::size_t> out;
  std::vector<std::size_t> stack = {0};
  while (!stack.empty()) {
    std::size_t at = stack.back();
    stack.pop_back();
    if (!folds.empty() && folds[at].hidden) continue;
    out.push_back(at);
    stack.insert(stack.end(), below[at].rbegin(), below[at].rend());
  }
  return out;
}

/// Adds the totals of the layers that branch `at` stands for.
void add_up(ckpt::Branch& branch, const Branches& all, const std::vector<std::size_t>& siblings,
            const std::vector<LayerFold>& folds, std::size_t at) {
  for (std::size_t i : siblings) {
    if (!folds[i].hidden || folds[i].shown_by != at) continue;
    branch.tensors += all[i].tensors;
    branch.elements += all[i].elements;
    branch.bytes += all[i].bytes;
  }
  for (auto& [dtype, tensors] : branch.dtypes) tensors *= folds[at].count;
}

void print_tree(Context& context, const Options& options, const Address& address, const Branches& all) {
  Table table({{"MODULE"},
               {"TENSORS", Table::Align::right},
               {"ELEMENTS", Table::Align::right},
               {"SIZE", Table::Align::right},
               {"SHARE", Table::Align::bar},
               {"DTYPES"}});
  BranchOrder below = sorted_children(all, options.order);
  bool fold = options.fold || (context.out.width() > 0 && !options.all);
  std::vector<LayerFold> folds = fold ? fold_layers(all, below) : std::vector<LayerFold>();
  bool folded = false;
  for (std::size_t i : arrange(below, folds)) {
    if (!is_shown(options, all[i])) continue;
    std::string label = i == 0 ? core::printable(address.text()) : core::printable(all[i].label);
    ckpt::Branch branch = all[i];
    if (fold && folds[i].count > 1) {
      label = core::printable(folds[i].label) + " \u00d7" + core::format_count(folds[i].count);
      add_up(branch, all, below[branch.parent], folds, i);
      folded = true;
    }
    table.add_row({std::string(2 * branch.depth, ' ') + label, core::format_count(branch.tensors),
                   core::format_count(branch.elements), core::format_size(branch.bytes),
                   share_text(share_of(branch, all.front())), dtypes_of(branch)});
  }
  table.print(context.out);
  if (folded)
    context.out.print(
        "repeated layers are one row with their totals, and one of them is shown below it; --all shows each\n");
}

void write_branch(ckpt::JsonWriter& json, const ckpt::Branch& branch, const ckpt::Branch& whole) {
  json.begin_object();
  json.key("name").value(branch.name);
  json.key("depth").value(branch.depth);
  json.key("tensors").value(branch.tensors);
  json.key("elements").value(branch.elements);
  json.key("parameters").value(branch.parameters);
  json.key("bytes").value(branch.bytes);
  json.key("share").value(share_of(branch, whole));
  json.key("dtypes").begin_object();
  for (const auto& [dtype, count] : branch.dtypes) json.key(core::name(dtype)).value(count);
  json.end_object();
  json.end_object();
}

void write_json(ckpt::JsonWriter& json, const Options& options, const Address& address, const Branches& all,
                const ckpt::Report& report) {
  json.begin_object();
  json.key("path").value(address.shown());
  if (!address.at.empty()) json.key("at").value(address.at);
  write_report(json, report);
  json.key("branches").begin_array();
  for (std::size_t i : arrange(sorted_children(all, options.order))) {
    if (is_shown(options, all[i])) write_branch(json, all[i], all.front());
  }
  json.end_array();
  json.end_object();
}

int run(Context& context, const Options& options) {
  ckpt::JsonWriter json(2);
  int code = kDone;
  if (options.files.size() > 1) json.begin_array();
  for (const std::string& file : options.files) {
    Address address = parse_address(file);
    ckpt::Report report;
    auto shown = std::make_shared<Shown>();
    context.kept = shown;
    shown->checkpoint = ckpt::open(address.path, options.look(report));
    core::with_context(address.path.string(),
                       [&] { shown->branches = ckpt::branches(ckpt::value_at(shown->checkpoint.root, address.at)); });
    say_report(options, address.path, report);
    code = std::max(code, options.looked(report));
    if (options.json) {
      write_json(json, options, address, shown->branches, report);
    } else {
      print_tree(context, options, address, shown->branches);
    }
  }
  if (options.files.size() > 1) json.end_array();
  if (options.json) context.out.print(json.text() + "\n");
  return code;
}

}  // namespace

void add_tree(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "tree", "ckpt tree best.pth --depth 2\n  ckpt tree --sort size best.pth::model",
                  "Show the modules of a file with the totals of each.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "checkpoint; FILE::path looks there only").required().type_name("");
  command.add_option("--depth", options->depth, "levels to show (default: 3)").type_name("N");
  command.add_flag("--tensors", options->tensors, "the tensors too, as the last level");
  OptionSpec all =
      command.add_flag("--all", options->all, "show each of the repeated layers (the default into a file or a pipe)");
  command
      .add_flag(
          "--fold", options->fold,
          "show repeated layers (same names, shapes and dtypes) once, as h.0-299 \u00d7300 (the default on a terminal)")
      .excludes(all);
  command.add_option("--sort", options->sort, "file, name (layer2 before layer10), size or numel (default: file)")
      .type_name("ORDER");
  add_read_options(command, *options);
  add_remote_options(command);
  command.callback([&chosen, options] {
    options->order = parse_order(options->sort);
    if (options->order == Order::dtype)
      throw core::Error(core::ErrorCode::usage, "modules cannot be sorted by dtype: one module can hold several");
    chosen = [options](Context& context) { return run(context, *options); };
  });
}

}  // namespace cli
