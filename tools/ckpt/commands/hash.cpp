// ckpt hash: one digest a model, the same in every format.

#include "libckpt/analyze/digest.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/input.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::vector<std::string> files;
  std::size_t depth = 0;
  bool tensors = false;
  ckpt::Selection selection;
};

ckpt::DigestResult digest_of(const Options& options, const Input& input) {
  ProgressBar bar(core::printable(input.address.shown()), !options.quiet);
  std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(input.checkpoint.root);
  ckpt::SelectionMatcher matcher(options.selection);
  std::erase_if(entries, [&](const ckpt::NamedEntry& e) { return !matcher.contains(e.name, *e.entry); });
  if (entries.empty()) throw core::Error(core::ErrorCode::key, "no tensor to take the digest of");
  return ckpt::digest(entries, {options.depth, options.threads, bar.hook()});
}

void print_result(Output& out, const Options& options, const Input& input, const ckpt::DigestResult& result) {
  out.print(ckpt::to_hex(result.model) + "  " + core::printable(input.address.text()) + "\n");
  for (const ckpt::DigestResult::Branch& branch : result.branches) {
    out.print(ckpt::to_hex(branch.digest) + "    " + core::printable(branch.name) + "  (" +
              count_of(branch.tensors, "tensor") + ", " + core::format_size(branch.bytes) + ")\n");
  }
  for (const ckpt::DigestResult::Tensor& tensor : result.tensors) {
    if (!options.tensors) break;
    out.print(ckpt::to_hex(tensor.digest) + "    " + core::printable(tensor.name) + "  " +
              ckpt::type_name(*tensor.entry) + " " + core::to_list(ckpt::value_shape(*tensor.entry)) + "\n");
  }
}

void write_json(ckpt::JsonWriter& json, const Options& options, const Input& input, const ckpt::DigestResult& result) {
  json.begin_object();
  json.key("path").value(input.address.text());
  json.key("digest").value(ckpt::to_hex(result.model));
  json.key("construction").value("ckpt digest 1, XXH3-128");
  json.key("tensor_count").value(static_cast<std::uint64_t>(result.tensors.size()));
  json.key("bytes").value(result.bytes);
  json.key("branches").begin_array();
  for (const ckpt::DigestResult::Branch& branch : result.branches) {
    json.begin_object();
    json.key("name").value(branch.name);
    json.key("digest").value(ckpt::to_hex(branch.digest));
    json.key("tensors").value(branch.tensors);
    json.key("bytes").value(branch.bytes);
    json.end_object();
  }
  json.end_array();
  if (options.tensors) {
    json.key("tensors").begin_array();
    for (const ckpt::DigestResult::Tensor& tensor : result.tensors) {
      json.begin_object();
      json.key("name").value(tensor.name);
      json.key("digest").value(ckpt::to_hex(tensor.digest));
      json.key("content").value(ckpt::to_hex(tensor.content));
      json.end_object();
    }
    json.end_array();
  }
  write_report(json, input.report);
  json.end_object();
}

int run(Context& context, const Options& options) {
  ckpt::JsonWriter json(2);
  if (options.files.size() > 1) json.begin_array();
  for (const std::string& file : options.files) {
    Input input = open_input(options, file);
    ckpt::DigestResult result = core::with_context(input.address.shown(), [&] { return digest_of(options, input); });
    say_damage(options, input);
    if (options.json) {
      write_json(json, options, input, result);
    } else {
      print_result(context.out, options, input, result);
      context.out.flush();
    }
  }
  if (options.files.size() > 1) json.end_array();
  if (options.json) context.out.print(json.text() + "\n");
  return kDone;
}

}  // namespace

void add_hash(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "hash", "ckpt hash best.pth::model best.safetensors\n  ckpt hash --depth 1 net.pth",
                  "One digest of all tensors: the same in every format, order, sharding and "
                  "compression; names, dtypes, shapes and values count.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->files, "checkpoint, or FILE::path").required().type_name("");
  command.add_option("--depth", options->depth, "also one digest per module, down to N levels").type_name("N");
  command.add_flag("--tensors", options->tensors, "also one digest per tensor");
  add_selection_options(command, options->selection);
  add_read_options(command, *options);
  add_io_option(command, *options);
  add_remote_options(command);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
