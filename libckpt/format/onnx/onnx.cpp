#include "libckpt/format/onnx/onnx.h"

#include <unordered_map>

#include "libckpt/budget.h"
#include "libckpt/format/folder.h"
#include "libckpt/format/onnx/onnx_values.h"
#include "libckpt/format/verify_reading.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kProtobufLimit = (1ULL << 31) - 1;
constexpr std::size_t kMaxListed = 8;

bool detect(const Input& input) {
  return input.head.size() > 2 && input.head[0] == std::byte{8} && looks_like_onnx(*input.file);
}

/// The files with values beside a model, each opened once.
class DataFiles {
 public:
  DataFiles(const Input& input, const OpenOptions& options) : input_(input), options_(options) {}

  SourcePtr open(const std::string& location) {
    auto known = files_.find(location);
    if (known != files_.end()) return known->second;
    const std::filesystem::path name(location);
    bool leaves = name.is_absolute() || location.find('\0') != std::string::npos;
    for (const auto& part : name) leaves = leaves || part == "..";
    if (leaves) throw Error(ErrorCode::refused, "its name leads out of the folder of the model");
    SourcePtr file = open_part(input_.path.parent_path(), location, options_, "the model");
    if (input_.budget) input_.budget->add_disk(file->size());
    return files_.emplace(location, std::move(file)).first->second;
  }

 private:
  const Input& input_;
  const OpenOptions& options_;
  std::unordered_map<std::string, SourcePtr> files_;
};

void report_left_out(const std::vector<std::string>& left_out, Report* report) {
  if (report == nullptr || left_out.empty()) return;
  std::vector<std::string> few(left_out.begin(),
                               left_out.begin() + static_cast<std::ptrdiff_t>(std::min(left_out.size(), kMaxListed)));
  std::string text = "initialisers that are not tensors of numbers are left out: " + core::join(few, ", ");
  if (left_out.size() > kMaxListed) text += " and " + core::format_count(left_out.size() - kMaxListed) + " more";
  report->warnings.push_back(std::move(text));
}

Checkpoint read(const Input& input, const OpenOptions& options) {
  OnnxModel model = read_onnx_model(*input.file, options.limits);
  DataFiles files(input, options);
  std::vector<std::string> left_out;
  for (const std::string& name : model.left_out) left_out.push_back(core::quote(name) + " (sparse)");
  Dict dict;
  for (const OnnxTensor& tensor : model.tensors) {
    if (std::string why = onnx_obstacle(tensor); !why.empty()) {
      left_out.push_back(core::quote(tensor.name) + " (" + why + ")");
      continue;
    }
    core::with_context("initialiser " + core::quote(tensor.name), [&] {
      EntryPtr entry = make_onnx_entry(tensor, input.file, [&](const std::string& name) { return files.open(name); });
      dict.items.emplace_back(Value::text(tensor.name), Value::tensor(std::move(entry)));
    });
  }
  report_left_out(left_out, options.report);
  if (options.report != nullptr && input.file->size() > kProtobufLimit) {
    options.report->warnings.emplace_back(
        "the model is larger than 2 GiB, which ONNX itself does not load; its values "
        "belong in files beside it");
  }
  Checkpoint checkpoint;
  checkpoint.metadata = std::move(model.metadata);
  checkpoint.root = Value::dict(std::move(dict));
  return checkpoint;
}

VerifyResult verify(const Input& input, const OpenOptions& options, const Progress& progress) {
  return verify_by_reading(read(input, options).root, progress);
}

}  // namespace

const Format kOnnx = {
    .name = "onnx",
    .title = "model file (ONNX)",
    .extensions = {},
    .detect = detect,
    .read = read,
    .verify = verify,
};

}  // namespace ckpt::detail
