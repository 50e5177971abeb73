// ckpt cast: another element type, as PyTorch rounds it.

#include "libckpt/transform/cast.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"

namespace cli {
namespace {

struct Options : EditOptions {
  std::string to;
  std::vector<std::string> from;
  ckpt::CastOptions cast;
};

void write_counts(ckpt::JsonWriter& json, const ckpt::CastReport& report) {
  json.key("tensors").value(report.tensors);
  json.key("tensors_cast").value(report.changed);
  json.key("tensors_kept").value(report.kept);
  json.key("untied").value(report.untied);
  json.key("bytes_before").value(report.bytes_before);
  json.key("bytes_after").value(report.bytes_after);
  json.key("casts").begin_array();
  for (const ckpt::CastReport::Count& count : report.counts) {
    json.begin_object();
    json.key("from").value(core::name(count.from));
    json.key("to").value(core::name(count.to));
    json.key("tensors").value(count.tensors);
    json.end_object();
  }
  json.end_array();
}

Edit describe(ckpt::Checkpoint checkpoint, const ckpt::CastReport& report) {
  Edit edit;
  edit.checkpoint = std::move(checkpoint);
  edit.changed = report.changed > 0;
  if (report.changed == 0) {
    edit.nothing = "nothing to cast: 0 of " + count_of(report.tensors, "tensor") + " would change";
    if (report.kept > 0) edit.nothing += " (" + core::format_count(report.kept) + " kept)";
  }
  edit.summary = core::format_count(report.changed) + " of " + count_of(report.tensors, "tensor") + " cast, " +
                 core::format_size(report.bytes_before) + " -> " + core::format_size(report.bytes_after);
  if (report.kept > 0) edit.summary += ", " + core::format_count(report.kept) + " kept";
  if (report.untied > 0) edit.summary += ", " + core::format_count(report.untied) + " no longer share their memory";
  for (const ckpt::CastReport::Count& count : report.counts) {
    edit.steps.push_back(std::string(core::name(count.from)) + " -> " + std::string(core::name(count.to)) + ": " +
                         count_of(count.tensors, "tensor"));
  }
  edit.json = [report](ckpt::JsonWriter& json) { write_counts(json, report); };
  return edit;
}

int run(Context& context, const Options& options) {
  ckpt::CastOptions cast = options.cast;
  cast.to = core::parse_dtype(options.to);
  for (const std::string& from : options.from) cast.from.push_back(core::parse_dtype(from));
  // Found out here, a mistake in the command line costs no reading.
  ckpt::cast(ckpt::Checkpoint{}, cast);
  return run_edits(context, options, {"cast", std::string(core::short_name(cast.to))},
                   [&](const ckpt::Checkpoint& checkpoint, const std::string& at) {
                     cast.at = at;
                     ckpt::CastReport report;
                     ckpt::Checkpoint out = ckpt::cast(checkpoint, cast, &report);
                     return describe(std::move(out), report);
                   });
}

}  // namespace

void add_cast(CommandSpec app, Command& chosen) {
  CommandSpec command = add_command(app, "cast",
                                    "ckpt cast --to bf16 net.safetensors    # writes net.bf16.safetensors\n  ckpt cast "
                                    "--to f16 --keep-norms --keep 'lm_head.*' net.pth -o half.pth",
                                    "Change the element type, rounding as PyTorch does. Floats become floats and "
                                    "integers integers, unless --from says which types are meant. Normalization layers "
                                    "are cast too, as by model.to(dtype); --keep-norms leaves them. Exit 1, with no "
                                    "output, when nothing would change.");
  auto options = std::make_shared<Options>();
  command.add_option("--to", options->to, "the new type: f32, bf16, f16, f8_e4m3fn, i32, ...")
      .required()
      .type_name("DTYPE");
  command.add_option("--from", options->from, "only tensors of this type; may be repeated")
      .type_name("DTYPE")
      .one_value_each();
  command.add_option("--keep", options->cast.keep.include, "tensors that keep their type; may be repeated")
      .type_name("SELECTOR")
      .one_value_each();
  command.add_flag("--keep-norms", options->cast.keep_norms, "normalization layers keep their type");
  add_edit_options(command, *options, "NAME.DTYPE.EXT beside the input");
  command.callback([&chosen, options] { chosen = [options](Context& context) { return run(context, *options); }; });
}

}  // namespace cli
