// ckpt cat: the values of one tensor (or one plain value), as text or as bytes.

#include <unistd.h>

#include "libckpt/analyze/npy_header.h"
#include "libckpt/analyze/plain_values.h"
#include "libckpt/analyze/stats.h"
#include "libckpt/analyze/tensor_text.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/checksum.h"
#include "libckpt/transform/cast_values.h"
#include "libckpt/transform/slice_tensor.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/standard_output.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/input.h"
#include "tools/ckpt/output/chart.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct Options : ReadOptions {
  bool dequantize = false;
  std::string file;
  std::string key;
  std::string slice;
  std::string dtype;
  std::string output;
  std::uint64_t threshold = 1000;
  bool stats = false;
  bool raw = false;
  bool npy = false;
  bool force = false;
};

ckpt::EntryPtr cast_to(const ckpt::EntryPtr& entry, const std::string& dtype) {
  core::DType to = core::parse_dtype(dtype);
  auto out = std::make_shared<ckpt::Entry>(*entry);
  out->view.reset();
  out->dtype = to;
  if (entry->bytes) out->bytes = ckpt::cast_source(entry->bytes, entry->dtype, to);
  return out;
}

/// The bytes of the values behind what a format puts in front, to a file or to standard output.
void write_bytes(Context& context, const Options& options, const ckpt::Entry& entry) {
  if (entry.bytes == nullptr) throw Error(ErrorCode::unsupported, "the tensor has no values: it is on 'meta'");
  if (entry.conjugate || entry.negative) {
    throw Error(ErrorCode::unsupported, "the tensor is lazily conjugated or negated; convert it first");
  }
  std::string header = options.npy ? ckpt::npy_header(entry) : "";
  if (!options.output.empty() && !is_standard_output(options.output)) {
    ckpt::AtomicFile file(options.output, {.overwrite = options.force});
    file.write(core::as_bytes(header));
    file.write_from(*entry.bytes);
    file.commit();
    return;
  }
  if (::isatty(STDOUT_FILENO) == 1) {
    throw Error(ErrorCode::usage, "bytes do not belong on a terminal; name a file with -o, or use a pipe");
  }
  context.out.print_bytes(header);
  ckpt::for_each_part(*entry.bytes, [&](ckpt::Bytes part) { context.out.print_bytes(core::as_text(part)); });
}

void print_stats(Output& out, const std::string& key, const ckpt::EntryPtr& entry) {
  ckpt::NamedEntry named;
  named.name = key;
  named.entry = entry;
  ckpt::TensorStats s = ckpt::stats({named}).tensors.at(0).stats;
  if (!s.numbers) {
    out.print("no numbers\n");
    return;
  }
  out.print(count_and_size(s.values) + " values, " + core::format_count(s.zeros) + " zero, " +
            core::format_count(s.nan) + " NaN, " + core::format_count(s.inf) + " infinite, " +
            core::format_count(s.denormals) + " denormal\n");
  if (s.finite() == 0) return;
  out.print("from " + short_number(s.min) + " to " + short_number(s.max) + ", mean " + short_number(s.mean) + ", std " +
            short_number(s.deviation) + ", norm " + short_number(s.norm) + "\n" + bar_chart(s.histogram, 50));
}

void write_tensor_json(Context& context, const Input& input, const Options& options, const ckpt::Entry& entry) {
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("path").value(input.address.text());
  json.key("name").value(options.key);
  json.key("dtype").value(ckpt::type_name(entry));
  json.key("shape").begin_array();
  for (std::int64_t size : ckpt::value_shape(entry)) json.value(size);
  json.end_array();
  json.key("text").value(ckpt::tensor_text(entry, {.threshold = options.threshold}));
  json.end_object();
  context.out.print(json.take() + "\n");
}

int show_tensor(Context& context, const Input& input, const Options& options, ckpt::EntryPtr entry) {
  if (!options.slice.empty()) entry = ckpt::sliced(*entry, options.slice);
  if (!options.dtype.empty()) entry = cast_to(entry, options.dtype);
  if (options.raw || options.npy) {
    write_bytes(context, options, *entry);
    return kDone;
  }
  if (options.json) {
    write_tensor_json(context, input, options, *entry);
    return kDone;
  }
  if (options.stats) {
    print_stats(context.out, options.key, entry);
    return kDone;
  }
  std::size_t width = context.out.width() > 0 ? context.out.width() : 80;
  context.out.print(ckpt::tensor_text(*entry, {.threshold = options.threshold, .width = width}) + "\n");
  return kDone;
}

int run(Context& context, const Options& options) {
  if (options.raw && options.npy) throw Error(ErrorCode::usage, "--raw and --npy contradict each other");
  if (!options.output.empty() && !options.raw && !options.npy) {
    throw Error(ErrorCode::usage, "-o needs --raw or --npy");
  }
  Input input = open_input(options, options.file, options.dequantize);
  return core::with_context(input.address.shown(), [&] {
    const ckpt::Value& value = ckpt::value_at(input.checkpoint.root, options.key);
    if (value.is(ckpt::Value::Kind::tensor)) {
      int code = core::with_context(core::quote(options.key),
                                    [&] { return show_tensor(context, input, options, value.entry_ptr()); });
      say_damage(options, input);
      return code;
    }
    if (options.raw || options.npy || !options.slice.empty() || !options.dtype.empty() || options.stats) {
      throw Error(ErrorCode::usage, core::quote(options.key) + " is not a tensor but " + ckpt::type_text(value));
    }
    std::string text = ckpt::value_text(value, 1 << 20);
    if (options.json) {
      ckpt::JsonWriter json(2);
      json.begin_object();
      json.key("path").value(input.address.text());
      json.key("name").value(options.key);
      json.key("type").value(ckpt::type_text(value));
      json.key("text").value(text);
      json.end_object();
      text = json.take();
    } else {
      text = core::printable(text);
    }
    context.out.print(text + "\n");
    return static_cast<int>(kDone);
  });
}

}  // namespace

void add_cat(CommandSpec app, Command& chosen) {
  CommandSpec command =
      add_command(app, "cat", "ckpt cat net.pth fc.weight --slice 0:5,:\n  ckpt cat net.pth fc.weight --npy -o fc.npy",
                  "Print the values of one tensor as PyTorch does, or write them as bytes or .npy; "
                  "also shows a plain value.");
  auto options = std::make_shared<Options>();
  command.add_option("FILE", options->file, "checkpoint, or FILE::path").required().type_name("");
  command.add_option("KEY", options->key, "name of the tensor or value, as 'ckpt ls' shows it")
      .required()
      .type_name("");
  command.add_option("--slice", options->slice, "part of the tensor, as in Python: 0:5,:,-1").type_name("SLICE");
  command.add_option("--dtype", options->dtype, "cast the values first").type_name("DTYPE");
  command.add_option("--threshold", options->threshold, "print all of up to N values (default: 1000)").type_name("N");
  command.add_flag("--stats", options->stats, "print range, mean and a histogram instead of the values");
  command.add_flag("--raw", options->raw, "write the values as little-endian bytes");
  command.add_flag("--npy", options->npy, "write a NumPy file");
  command.add_option("-o,--output", options->output, "file for --raw and --npy (default: standard output)")
      .type_name("OUT");
  command.add_flag("-f,--force", options->force, "overwrite an existing output");
  add_dequantize_option(command, options->dequantize);
  add_read_options(command, *options);
  add_remote_options(command);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
