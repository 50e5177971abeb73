#include "libckpt/format/torch_part.h"

#include "libckpt/budget.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/format/folder.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

Input open_file(const std::filesystem::path& folder, const std::string& name, const OpenOptions& options) {
  constexpr std::uint64_t kLookedAt = 4096;
  Input file;
  file.path = folder / name;
  file.file = open_part(folder, name, options, "the checkpoint");
  file.head.resize(std::min(kLookedAt, file.file->size()));
  file.file->read(0, file.head);
  return file;
}

const Format& format_of(const Input& file) {
  const Format& format = detect_format(file);
  if (!format.torch_save) corrupt("it is a " + std::string(format.title) + " where a PyTorch file is needed");
  return format;
}

/// Adds what the format's own verify() says of the file.
void add_part(VerifyResult& result, const std::filesystem::path& folder, const std::string& name,
              const OpenOptions& options, const Progress& progress) {
  core::with_context(core::quote(name), [&] {
    Input file = open_file(folder, name, options);
    VerifyResult part = format_of(file).verify(file, options, progress);
    if (part.checksums != ChecksumCover::all) result.checksums = ChecksumCover::some;
    for (Finding& damage : part.damage) {
      result.damage.push_back({name + ": " + damage.subject, damage.text, damage.hint});
    }
    for (Finding& note : part.notes) result.notes.push_back({name + ": " + note.subject, note.text, note.hint});
    result.tensors_checked += part.tensors_checked;
    result.bytes_checked += part.bytes_checked;
  });
}

}  // namespace

Value read_torch_part(const Input& input, const std::filesystem::path& folder, const std::string& name,
                      const OpenOptions& options) {
  return core::with_context(core::quote(name), [&] {
    Report report;
    OpenOptions inner = options;
    inner.foreign_objects = true;  // classes of the program beside the weights
    inner.report = &report;
    Input file = open_file(folder, name, options);
    if (input.budget) input.budget->add_disk(file.file->size());
    Value root = format_of(file).read(file, inner).root;
    if (!root.is(Value::Kind::dict)) corrupt("it is not a dict");
    if (options.report != nullptr) {
      for (const std::string& text : report.relaxations) {
        options.report->relaxations.push_back(core::quote(name) + ": " + text);
      }
    }
    return root;
  });
}

VerifyResult verify_joined_parts(const std::filesystem::path& folder, const OpenOptions& options,
                                 const Progress& progress,
                                 const std::function<std::vector<std::string>(const OpenOptions&)>& join) {
  VerifyResult result;
  result.method = "what each file records, and the parts against each other";
  result.checksums = ChecksumCover::all;
  OpenOptions inner = options;
  inner.report = nullptr;
  for (const std::string& name : join(inner)) add_part(result, folder, name, options, progress);
  return result;
}

}  // namespace ckpt::detail
