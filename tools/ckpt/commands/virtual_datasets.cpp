#include "tools/ckpt/commands/virtual_datasets.h"

#include "libckpt/format/format.h"
#include "libckpt/format/virtual_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/edit/standard_output.h"
#include "tools/ckpt/output/listing.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

void check_options(const EditOptions& options, const Address& source) {
  bool of_values = options.in_place || options.codec != ckpt::Codec::automatic || options.parity != 0 ||
                   !options.retype.empty() || options.max_shard_size > 0 || !options.shard_prefixes.empty() ||
                   options.shards > 0 || options.shard_dim > 0;
  if (of_values) {
    throw Error(ErrorCode::usage,
                "--virtual writes no values, so nothing can be said of how they are written (--in-place, --codec, "
                "--parity, --retype, --ranks, shards)");
  }
  if (source.at.empty()) return;
  throw Error(ErrorCode::usage, "--virtual shows all tensors of a folder; name it without '::'")
      .add_context(source.text());
}

void check_name(const std::string& target) {
  const ckpt::Format* format = ckpt::find_format_for(target);
  if (!is_standard_output(target) && format != nullptr && format->name == "hdf5") return;
  throw Error(ErrorCode::usage,
              "--virtual writes an HDF5 file, which finds the parts from where it lies: name it OUT.h5")
      .add_context(target);
}

std::string summary_of(const ckpt::VirtualFile& file) {
  return count_of(file.names.size(), "tensor") + " shown as virtual datasets over " + count_of(file.parts, "part") +
         " in " + core::quote(core::printable(file.folder));
}

void warn(const ckpt::VirtualFile& file, ckpt::Report& report) {
  report.warnings.emplace_back(
      "the values stay in the parts: move the file and the folder together; a part that is missing reads as NaN, and "
      "in tensors of whole numbers as zeros, without an error");
  if (file.needs_zstd) report.warnings.emplace_back("parts are packed with zstd, for which h5py needs hdf5plugin");
  if (file.left_in_parts == 0) return;
  report.warnings.push_back(count_of(file.left_in_parts, "value") + " that " +
                            (file.left_in_parts == 1 ? "is no tensor stays" : "are no tensors stay") +
                            " in the parts alone");
}

}  // namespace

int write_virtual_datasets(Context& context, const EditOptions& options, const Address& source,
                           const std::string& target) {
  check_options(options, source);
  check_name(target);
  check_target(options, {source, target, "hdf5"});
  ckpt::Report report;
  const ckpt::VirtualFile file = core::with_context(
      source.path.string(), [&] { return ckpt::plan_virtual_file(source.path, target, options.open(report)); });
  warn(file, report);
  ckpt::SaveOptions save = save_options(options);
  save.report = &report;
  if (!options.dry_run) core::with_context(target, [&] { ckpt::write_virtual_file(file, target, save); });
  say_report(options, source.path, report);
  if (options.json) {
    ckpt::JsonWriter json(2);
    json.begin_object().key("command").value("convert").key("input").value(source.shown());
    json.key("output").value(target).key("dry_run").value(options.dry_run).key("changed").value(true);
    json.key("bytes_written").value(report.bytes_written).key("rung").value(report.rung);
    json.key("tensors").value(static_cast<std::uint64_t>(file.names.size()));
    json.key("parts").value(static_cast<std::uint64_t>(file.parts)).key("virtual_of").value(file.folder);
    write_report(json, report);
    json.end_object();
    context.out.print(json.text() + "\n");
  } else if (!options.quiet) {
    context.out.print(core::printable(target) + ": " + summary_of(file) + ", " +
                      (options.dry_run ? "nothing written (dry run)"
                                       : core::format_size(report.bytes_written) + " written as HDF5 file") +
                      "\n");
  }
  return 0;
}

}  // namespace cli
