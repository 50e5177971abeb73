#include "libckpt/budget.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/format/torch/pickle_value.h"
#include "libckpt/format/torch/torch_archive.h"
#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;

/// What describes the tensors, and all plain values, may be wrong then.
void note_wrong_checksum(const TorchArchive& archive, const OpenOptions& options) {
  std::string text = "the record 'data.pkl' is damaged: its CRC-32 is not the recorded one";
  if (archive.has_checksums() && !options.lenient) throw Error(ErrorCode::corrupt, text);
  if (options.report == nullptr) return;
  if (archive.has_checksums()) return options.report->relaxations.push_back(text);
  options.report->warnings.emplace_back("the file was saved without checksums, so damage cannot be seen");
}

core::ByteVector read_pickle_record(const TorchArchive& archive, const OpenOptions& options) {
  const ZipMember& member = archive.member("data.pkl");
  if (member.size > options.limits.max_pickle_bytes) {
    throw Error(ErrorCode::refused, "data.pkl holds " + core::format_size(member.size) + " where at most " +
                                        core::format_size(options.limits.max_pickle_bytes) + " are accepted");
  }
  // PyTorch stores its pickles as they are. A byte of one is an object, and a deflated byte may be a thousand of them.
  if (member.method == kZipDeflated) {
    Budget(options.limits, archive.zip().directory_offset()).take_decoded("data.pkl", member.size);
  }
  core::ByteVector pickle = read_all(*archive.zip().payload(member));
  if (crc32(Bytes(pickle)) != member.crc32) note_wrong_checksum(archive, options);
  return pickle;
}

void check_consumed(const PickleGraph& graph, const OpenOptions& options) {
  std::size_t rest = graph.pickle().size() - graph.consumed();
  if (rest == 0) return;
  std::string text = "data.pkl has " + core::format_size(rest) + " after its end";
  if (!options.lenient) throw Error(ErrorCode::corrupt, text);
  if (options.report != nullptr) options.report->relaxations.push_back(text);
}

/// Records that carry nothing of the data: PyTorch's own bookkeeping begins with a dot.
bool is_bookkeeping(std::string_view name) {
  return name.empty() || name.starts_with('.') || name == "data.pkl" || name == "version" || name == "byteorder" ||
         name.starts_with("data/");
}

void report_leftovers(const TorchArchive& archive, const ArchiveStorages& storages, Report& report) {
  for (const std::string& name : storages.unused()) {
    report.warnings.push_back("no tensor uses the record " + core::quote(name));
  }
  bool deflated = false;
  for (const ZipMember& member : archive.zip().members()) {
    std::string_view name = archive.inner_name(member);
    deflated = deflated || (member.method == kZipDeflated && !archive.is_program(name));
    if (!is_bookkeeping(name) && !archive.is_program(name))
      report.warnings.push_back("the record " + core::quote(name) + " is not read");
  }
  if (deflated) {
    report.warnings.emplace_back("records are compressed, which PyTorch does not do: they are inflated when read");
  }
}

}  // namespace

PickleGraph read_object_pickle(const TorchArchive& archive, const OpenOptions& options) {
  PickleGraph graph = read_pickle(read_pickle_record(archive, options), options.limits);
  check_consumed(graph, options);
  return graph;
}

Value read_object(const TorchArchive& archive, const PickleGraph& graph, const OpenOptions& options,
                  SymbolCheck check) {
  ArchiveStorages storages(archive, options);
  Value root = to_value(graph, storages, options, check);
  if (options.report != nullptr) report_leftovers(archive, storages, *options.report);
  return root;
}

}  // namespace ckpt
