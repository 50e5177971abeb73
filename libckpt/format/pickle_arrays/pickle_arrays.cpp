#include "libckpt/format/pickle_arrays/pickle_arrays.h"

#include <algorithm>

#include "libckpt/format/pickle_arrays/array_tensors.h"
#include "libckpt/format/pickle_arrays/joblib_runs.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/format/torch/pickle_value.h"
#include "libckpt/format/verify_reading.h"
#include "libckpt/hint.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kLooked = 64 << 10;

/// A pickle of protocol 2 to 5 that names the functions which make arrays. They are named where the first array is.
bool detect(const Input& input) {
  std::string_view head = core::as_text(input.head);
  if (head.size() < 2 || head[0] != '\x80' || head[1] < 2 || head[1] > 5) return false;
  core::ByteVector bytes(std::min(kLooked, input.file->size()));
  try {
    input.file->read(0, bytes);
  } catch (const Error&) {
    return false;  // whoever reads on will say what is wrong with the file
  }
  std::string_view text = core::as_text(bytes);
  return text.find("numpy") != text.npos &&
         (text.find("_reconstruct") != text.npos || text.find("_frombuffer") != text.npos || names_joblib(text));
}

/// Storages are PyTorch's, and none lie beside a bare pickle.
class NoStorages final : public StorageProvider {
 public:
  std::shared_ptr<const Storage> provide(const StorageRequest&) override {
    throw Error(ErrorCode::corrupt, "the pickle refers to the storage of a tensor, and there is none beside it");
  }
};

/// joblib puts the values of arrays behind the opcodes that make them.
PickleOutline outline_of(const ByteSource& file, const Limits& limits) {
  core::ByteVector bytes(std::min(kLooked, file.size()));
  file.read(0, bytes);
  if (!names_joblib(core::as_text(bytes))) return outline_pickle(file, limits);
  JoblibRuns runs(file, limits);
  return outline_pickle(file, limits, &runs);
}

void check_end(const Input& input, const PickleOutline& outline, const OpenOptions& options) {
  const std::uint64_t behind = input.file->size() - outline.length;
  if (behind == 0) return;
  std::string what = core::format_count(behind) + " bytes after the pickle";
  if (!options.lenient) {
    throw HintedError(ErrorCode::corrupt, what + " belong to nothing (a second one, perhaps)",
                      Hint{"{} reads the first", {{Hint::Option::lenient}}});
  }
  if (options.report != nullptr) options.report->relaxations.push_back(what + " are let pass");
}

/// What PyTorch would say of the pickle says nothing here.
void pass_on(const Report& from, Report* to) {
  if (to == nullptr) return;
  to->foreign.insert(to->foreign.end(), from.foreign.begin(), from.foreign.end());
  for (const std::string& text : from.warnings) {
    if (text.find("weights_only") == std::string::npos) to->warnings.push_back(text);
  }
}

void report_others(FoundArrays& found, Report* report) {
  if (report == nullptr || found.others.empty()) return;
  std::sort(found.others.begin(), found.others.end());
  found.others.erase(std::unique(found.others.begin(), found.others.end()), found.others.end());
  report->warnings.push_back("arrays of other types than numbers stay objects: " +
                             core::printable(core::join(found.others, ", ")));
}

Checkpoint read_with(const Input& input, const OpenOptions& options, SymbolCheck check) {
  PickleOutline outline = outline_of(*input.file, options.limits);
  check_end(input, outline, options);
  PickleGraph graph = read_pickle(std::move(outline.pickle), options.limits);
  Report report;
  OpenOptions inner = options;
  inner.report = &report;
  NoStorages none;
  Value tree = to_value(graph, none, inner, check);
  pass_on(report, options.report);
  FoundArrays found;
  Checkpoint checkpoint;
  checkpoint.root = with_array_tensors(tree, outline, input.file, options.limits, found);
  if (found.tensors == 0) {
    throw Error(ErrorCode::unsupported, "this is a bare pickle without arrays of numbers, not a checkpoint");
  }
  report_others(found, options.report);
  return checkpoint;
}

Checkpoint read(const Input& input, const OpenOptions& options) {
  return read_with(input, options, SymbolCheck::refuse);
}

/// Symbols are the scanner's business.
VerifyResult verify(const Input& input, const OpenOptions& options, const Progress& progress) {
  return verify_by_reading(read_with(input, options, SymbolCheck::carry).root, progress);
}

}  // namespace

const Format kPickleArrays = {
    .name = "pickle",
    .title = "pickle of arrays",
    .extensions = {},
    .detect = detect,
    .read = read,
    .verify = verify,
};

}  // namespace ckpt::detail
