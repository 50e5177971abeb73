// ckpt ls (also: inspect): the tensors of a file, one a line.

#include <algorithm>
#include <optional>
#include <utility>

#include "libckpt/format/spread.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/quantized_layers.h"
#include "libckpt/transform/selector.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/hub_models.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/output/folded_names.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/order.h"
#include "tools/ckpt/output/row_listing.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::vector<std::string> files;
  bool values = false;
  std::string sort = "file";
  Order order = Order::file;
  bool reverse = false;
  bool all = false;
  bool fold = false;
  bool chunks = false;
  std::uint64_t top = 0;
  ckpt::Selection selection;

  /// The whole list as it is in the file, for which no tree is needed.
  bool wants_row() const {
    return json && !chunks && order == Order::file && !reverse && top == 0 && selection.empty();
  }
};

struct Listed {
  ckpt::Checkpoint checkpoint;
  Listing listing;
  ckpt::detail::TensorRow row = {};         ///< of a file that gave one, whose listing has no tensors
  std::vector<std::size_t> shown;           ///< tensors in the order to show; of a row all
  FoldedNames folds = {};                   ///< empty: each is shown
  std::optional<ckpt::Spread> spread = {};  ///< where the pieces are asked for

  bool is_row() const { return !row.empty(); }
};

/// The tensors that were asked for, in the order that was asked for.
std::vector<std::size_t> choose(const Options& options, const Listing& listing) {
  std::vector<std::size_t> shown = ordered(listing, options.order);
  if (options.reverse) std::reverse(shown.begin(), shown.end());
  if (!options.selection.empty()) {
    ckpt::SelectionMatcher matcher(options.selection);
    std::erase_if(shown,
                  [&](std::size_t i) { return !matcher.contains(listing.tensors[i].name, *listing.tensors[i].entry); });
  }
  if (options.top > 0 && shown.size() > options.top) shown.resize(options.top);
  return shown;
}

/// A terminal gets repeated layers once, as long as the whole list is asked for, in the order of the file.
bool wants_folds(const Options& options, const Output& out) {
  if (options.chunks) return false;
  bool whole = options.order == Order::file && !options.reverse && options.top == 0 && options.selection.empty();
  if (options.all || options.json || options.quiet || !whole) return false;
  return options.fold || out.width() > 0;
}

void print_table(Output& out, const Listed& listed) {
  const Listing& listing = listed.listing;
  Table table({{"NAME"}, {"DTYPE"}, {"SHAPE"}, {"LOCATION"}, {"SIZE", Table::Align::right}, {""}});
  bool folded = false;
  for (std::size_t i : listed.shown) {
    ListedName row = listed_name(listing, listed.folds, i);
    folded |= row.hidden;
    if (row.hidden) continue;
    const ckpt::Entry& entry = *listing.tensors[i].entry;
    table.add_row({row.name, ckpt::type_name(entry), core::to_list(ckpt::value_shape(entry)),
                   core::printable(entry.location), core::format_size(entry.byte_size()), row.notes});
  }
  table.print(out);
  if (folded) out.print("repeated layers are shown once, with the size of one; --all shows each\n");
}

/// Every piece of every tensor, a line each.
void print_chunks(Output& out, const Listed& listed) {
  Table table(
      {{"NAME"}, {"OFFSETS"}, {"SIZES"}, {"PART"}, {"AT", Table::Align::right}, {"STORED", Table::Align::right}});
  for (std::size_t i : listed.shown) {
    const ListedTensor& tensor = listed.listing.tensors[i];
    for (const ckpt::SpreadPiece& piece : listed.spread->of(*tensor.entry)) {
      table.add_row({core::printable(tensor.name), core::to_list(piece.offsets), core::to_list(piece.sizes),
                     piece.file.empty() ? "(not written)" : core::printable(piece.file),
                     piece.file.empty() ? "" : core::format_count(piece.offset), core::format_size(piece.length)});
    }
  }
  table.print(out);
}

void print_values(Output& out, const Listing& listing) {
  Table table({{"VALUE"}, {"TYPE"}, {""}});
  for (const ckpt::NamedValue& value : listing.values) {
    table.add_row(
        {core::printable(value.name), core::printable(ckpt::type_text(value.value)), ckpt::value_text(value.value)});
  }
  if (!listing.values.empty() && !listing.tensors.empty()) out.print("\n");
  table.print(out);
}

void print_summary(Output& out, const Address& address, const Listed& listed) {
  const Listing& listing = listed.listing;
  if (listed.shown.size() < listing.tensors.size()) out.print(core::format_count(listed.shown.size()) + " of ");
  out.print(count_of(listing.tensors.size(), "tensor") + ", " + count_of(listing.elements, "element") + ", " +
            core::format_size(listing.bytes));
  if (!listing.values.empty()) out.print("; " + count_of(listing.values.size(), "plain value"));
  out.print(" in a " + format_title(listed.checkpoint) + "\n");
  const std::vector<ckpt::QuantizedLayer> layers = ckpt::find_quantized_layers(listed.checkpoint.root);
  if (layers.empty()) return;
  const bool same = std::ranges::all_of(layers, [&](const auto& layer) { return layer.scheme == layers[0].scheme; });
  out.print(count_of(layers.size(), "quantized layer") + ": " +
            ckpt::scheme_by(config_beside(address.path), layers[0].scheme) + (same ? "" : " and others") + "\n");
}

/// The document of all files: what is said of each under "files", and their tensors one after the other, so that one
/// file and several are read alike.
class Document {
 public:
  Document(Output& out, bool one_file) : out_(out), one_file_(one_file) {
    out_.answer_is_one();
    files_.begin_object().key("files").begin_array();
  }
  void add(const Address& address, const Listed& listed, const ckpt::Report& report) {
    add_file(address, listed, report);
    if (one_file_) print_files();  // so that a long list needs no buffer of its size
    if (listed.is_row()) {
      RowLines lines(listed.listing, listed.row, address.shown());
      if (std::exchange(tensor_came_, true)) tensors_ += ',';
      for (std::string_view some = lines.take(); !some.empty(); some = lines.take()) add_lines(some);
    } else {
      const TensorLines lines(listed.listing, address.shown(), listed.spread ? &*listed.spread : nullptr);
      for (std::size_t i : listed.shown) {
        add_line([&] { lines.append(tensors_, i); });
      }
    }
  }
  void finish() {
    if (!one_file_) print_files();
    tensors_ += "]}\n";
    print_tensors();
  }

 private:
  static constexpr std::size_t kPiece = 32 << 10;

  void add_file(const Address& address, const Listed& listed, const ckpt::Report& report) {
    files_.begin_object();
    files_.key("path").value(address.shown());
    files_.key("format").value(listed.checkpoint.format);
    if (!address.at.empty()) files_.key("at").value(address.at);
    write_metadata(files_, listed.checkpoint);
    files_.key("elements").value(listed.listing.elements);
    files_.key("bytes").value(listed.listing.bytes);
    write_report(files_, report);
    files_.key("values").begin_array();
    for (const ckpt::NamedValue& value : listed.listing.values) ckpt::write_json(files_, value);
    files_.end_array();
    files_.end_object();
  }
  template <class Append>
  void add_line(const Append& append) {
    if (std::exchange(tensor_came_, true)) tensors_ += ',';
    append();
    if (one_file_ && tensors_.size() >= kPiece) print_tensors();
  }

  void add_lines(std::string_view lines) {
    if (!one_file_) {
      tensors_ += lines;
      return;
    }
    print_tensors();
    out_.print(lines);
  }

  void print_files() {
    files_.end_array().key("tensors");
    out_.print(files_.take());
  }

  void print_tensors() {
    out_.print(tensors_);
    tensors_.clear();
  }

  Output& out_;
  bool one_file_;
  ckpt::JsonWriter files_;
  std::string tensors_ = "[";  ///< JSON of those that are not printed yet
  bool tensor_came_ = false;
};

void print_file(Context& context, const Options& options, const Address& address, const Listed& listed) {
  Output& out = context.out;
  if (options.quiet) {
    for (std::size_t i : listed.shown) out.print(core::printable(listed.listing.tensors[i].name) + "\n");
    return;
  }
  if (options.files.size() > 1) out.print(core::printable(address.text()) + ":\n");
  options.chunks ? print_chunks(out, listed) : print_table(out, listed);
  if (options.values) print_values(out, listed.listing);
  print_summary(out, address, listed);
}

/// Opens the file and lists what lies at the address.
void open_listed(const Options& options, const Address& address, ckpt::Report& report, Listed& listed) {
  if (options.wants_row() && address.at.empty()) {
    listed.checkpoint = ckpt::detail::open_row(address.path, options.look(report), listed.row);
    if (listed.is_row()) {
      listed.listing = list_row(listed.checkpoint.root, listed.row);
      return;
    }
  } else {
    listed.checkpoint = ckpt::open(address.path, options.look(report));
  }
  core::with_context(address.path.string(),
                     [&] { listed.listing = make_listing(ckpt::value_at(listed.checkpoint.root, address.at)); });
}

int list_file(Context& context, const Options& options, const std::string& file, Document* document) {
  Address address = parse_address(file);
  ckpt::Report report;
  auto listed = std::make_shared<Listed>();
  context.kept = listed;
  open_listed(options, address, report, *listed);
  if (options.chunks) listed->spread = ckpt::spread_of(listed->checkpoint);
  if (options.chunks && !listed->spread) {
    throw core::Error(core::ErrorCode::usage, "is a " + format_title(listed->checkpoint) +
                                                  ": --chunks is for the folder of a distributed checkpoint")
        .add_context(address.path.string());
  }
  listed->shown = choose(options, listed->listing);
  if (wants_folds(options, context.out)) {
    listed->folds = fold_names(listed->listing, ckpt::branches(ckpt::value_at(listed->checkpoint.root, address.at)));
  }
  say_report(options, address.path, report);
  if (document != nullptr) {
    document->add(address, *listed, report);
  } else {
    print_file(context, options, address, *listed);
  }
  return options.looked(report);
}

int run(Context& context, const Options& options) {
  std::optional<Document> document;
  if (options.json) document.emplace(context.out, options.files.size() == 1);
  int code = kDone;
  for (const std::string& file : options.files) {
    bool spaced = !options.json && !options.quiet && &file != &options.files.front();
    if (spaced) context.out.print("\n");
    code = std::max(code, list_file(context, options, file, document ? &*document : nullptr));
  }
  if (document) document->finish();
  return code;
}

}  // namespace

void add_ls(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "ls", "ckpt ls net.pth\n  ckpt ls --sort size --top 10 best.pth::model",
                                    "List the tensors of a file (also: ckpt inspect).");
  command.alias("inspect");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "checkpoint; FILE::path lists what is there").required().type_name("");
  command
      .add_option("--sort", options->sort, "file, name (layer2 before layer10), size, numel or dtype (default: file)")
      .type_name("ORDER");
  command.add_flag("-r,--reverse", options->reverse, "reverse the order");
  command.add_option("--top", options->top, "only the first N of them").type_name("N");
  add_selection_options(command, options->selection);
  OptionSpec all =
      command.add_flag("--all", options->all, "show each of the repeated layers (the default into a file or a pipe)");
  command
      .add_flag(
          "--fold", options->fold,
          "show repeated layers (same names, shapes and dtypes) once, as h.0-299.attn (the default on a terminal)")
      .excludes(all);
  command.add_flag("--chunks", options->chunks,
                   "of a distributed checkpoint, show each piece of each tensor and its part");
  command.add_flag("--values", options->values, "plain values too (--json always has them)");
  add_read_options(command, *options);
  add_remote_options(command);
  command.callback([&chosen, options] {
    options->order = parse_order(options->sort);
    chosen = [options](Context& context) { return run(context, *options); };
  });
}

}  // namespace cli
