#include "libckpt/format/torch_legacy/torch_legacy.h"

#include "libckpt/budget.h"
#include "libckpt/format/torch/legacy_stream.h"
#include "libckpt/format/torch/pickle_value.h"
#include "libckpt/format/torch_legacy/tar_checkpoint.h"
#include "libckpt/io/checksum.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kMethod = "structure, and that every byte can be read";
constexpr std::size_t kTarMagicOffset = 257;

bool detect_stream(const Input& input) {
  return is_legacy_stream(input.head);
}

Checkpoint read_stream(const Input& input, const OpenOptions& options) {
  Checkpoint checkpoint;
  checkpoint.root = read_legacy_object(input.file, options);
  return checkpoint;
}

/// What lenient reading lets pass is damage; every byte must be there.
OpenOptions verifying(const OpenOptions& options, Report& report) {
  OpenOptions lenient = options;
  lenient.lenient = true;
  lenient.foreign_objects = true;
  lenient.report = &report;
  return lenient;
}

void finish(const Input& input, const Report& report, const Progress& progress, VerifyResult& result) {
  result.method = kMethod;
  for_each_part(*input.file, [&](Bytes part) {
    result.bytes_checked += part.size();
    if (progress) progress(result.bytes_checked, input.file->size());
  });
  for (const std::string& text : report.relaxations) result.damage.push_back({"file", text});
  for (const std::string& text : report.warnings) result.notes.push_back({"file", text});
}

VerifyResult verify_stream(const Input& input, const OpenOptions& options, const Progress& progress) {
  VerifyResult result;
  Report report;
  OpenOptions lenient = verifying(options, report);
  LegacyStream stream = read_legacy_pickles(input.file, lenient, SymbolCheck::carry);
  LegacyStorages storages(input.file, stream, lenient);
  Value root = to_value(stream.object, storages, lenient, SymbolCheck::carry);
  if (input.budget) within_budget(root, *input.file, *input.budget);
  result.tensors_checked = storages.count();
  finish(input, report, progress, result);
  return result;
}

/// Any tar looks like this; one without the members of a checkpoint is refused when it is read.
bool detect_tar(const Input& input) {
  std::string_view head = core::as_text(input.head);
  return head.size() > kTarMagicOffset && head.substr(kTarMagicOffset).starts_with("ustar");
}

Checkpoint read_tar(const Input& input, const OpenOptions& options) {
  Checkpoint checkpoint;
  checkpoint.root = read_tar_checkpoint(input.file, options, SymbolCheck::refuse).root;
  return checkpoint;
}

VerifyResult verify_tar(const Input& input, const OpenOptions& options, const Progress& progress) {
  VerifyResult result;
  Report report;
  result.tensors_checked = read_tar_checkpoint(input.file, verifying(options, report), SymbolCheck::carry).storages;
  finish(input, report, progress, result);
  return result;
}

}  // namespace

const Format kTorchLegacy = {
    .name = "torch-legacy",
    .title = "PyTorch legacy checkpoint",
    .extensions = {},
    .detect = detect_stream,
    .read = read_stream,
    .verify = verify_stream,
    .torch_save = true,
    .python = PythonReader::torch_load,
    .writes_as = "torch-zip",
};

const Format kTorchTar = {
    .name = "torch-tar",
    .title = "PyTorch tar checkpoint",
    .extensions = {},
    .detect = detect_tar,
    .read = read_tar,
    .verify = verify_tar,
    .torch_save = true,
    .writes_as = "torch-zip",
};

}  // namespace ckpt::detail
