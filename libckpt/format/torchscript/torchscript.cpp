#include "libckpt/format/torchscript/torchscript.h"

#include <algorithm>
#include <unordered_set>

#include "libckpt/budget.h"
#include "libckpt/format/torch/archive_check.h"
#include "libckpt/format/torch/first_few.h"
#include "libckpt/format/torch/pickle_reader.h"
#include "libckpt/format/torch/torch_archive.h"
#include "libckpt/io/zip_directory.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kMark = "/constants.pkl";

/// Looks for the record that only these archives have in the directory, without taking the directory apart.
bool directory_mentions(const ByteSource& file, std::string_view name) {
  ZipEnd end = find_zip_end(file, true);
  constexpr std::uint64_t kPart = 1 << 20;
  core::ByteVector part;
  for (std::uint64_t at = 0; at < end.directory_size; at += kPart) {
    part.resize(std::min(kPart + name.size(), end.directory_size - at));
    file.read(end.directory_offset + at, part);
    if (core::as_text(part).find(name) != std::string_view::npos) return true;
  }
  return false;
}

bool detect(const Input& input) {
  if (!core::as_text(input.head).starts_with("PK\x03\x04")) return false;
  try {
    if (!directory_mentions(*input.file, kMark)) return false;
    ZipReadOptions options;
    options.accept_trailing = true;
    ZipArchive zip = ZipArchive::open(input.file, options);
    if (zip.members().empty()) return false;
    const std::string& first = zip.members().front().name;
    return zip.find(first.substr(0, first.find('/')) + std::string(kMark)) != nullptr;
  } catch (const Error&) {
    return false;  // the torch zip format says what is wrong
  }
}

/// Classes of the program and the typed lists of TorchScript are no foreign objects here.
bool is_program_symbol(std::string_view symbol) {
  return symbol.starts_with("__torch__.") || symbol.starts_with("torch.jit._pickle.");
}

void check_symbols(const PickleGraph& graph, const OpenOptions& options) {
  std::vector<std::string> unknown;
  for (const PickleSymbol& symbol : graph.symbols()) {
    bool forbidden = symbol.role == SymbolRole::forbidden && !is_program_symbol(symbol.full);
    bool foreign = symbol.role == SymbolRole::foreign && !is_program_symbol(symbol.full) && !options.foreign_objects;
    if (forbidden || foreign) unknown.push_back(core::quote(symbol.full));
  }
  if (unknown.empty()) return;
  throw Error(ErrorCode::refused, "the pickle names " + core::join(unknown, ", ") +
                                      ", which is not plain data; nothing was loaded and nothing was run");
}

/// Attributes of a module, or null for anything else.
const Dict* attributes_of(const Value& value) {
  if (!value.is(Value::Kind::object) || !value.as_object().state.is(Value::Kind::dict)) return nullptr;
  bool is_class = value.as_object().symbol.starts_with("__torch__.");
  return is_class ? &value.as_object().state.as_dict() : nullptr;
}

class WeightWalk {
 public:
  /// Tensors of a module stand before those of its children, as in state_dict().
  void add(const Dict& attributes, const std::string& prefix) {
    for (const auto& [key, value] : attributes.items) {
      if (!key.is(Value::Kind::text)) continue;
      if (value.is(Value::Kind::tensor)) {
        items.emplace_back(Value::text(prefix + key.as_text()), value);
      } else if (attributes_of(value) == nullptr) {
        left_out.insert(key.as_text());
      }
    }
    for (const auto& [key, value] : attributes.items) {
      const Dict* child = attributes_of(value);
      if (child != nullptr && key.is(Value::Kind::text)) add(*child, prefix + key.as_text() + ".");
    }
  }

  std::vector<std::pair<Value, Value>> items;
  std::unordered_set<std::string> left_out;  ///< names of attributes that are no tensors
};

Value weights_of(const Value& program, const OpenOptions& options) {
  const Dict* attributes = attributes_of(program);
  if (attributes == nullptr) throw Error(ErrorCode::corrupt, "the archive has no module");
  WeightWalk walk;
  walk.add(*attributes, "");
  // Every module has these two; they say nothing about the weights.
  walk.left_out.erase("training");
  walk.left_out.erase("_is_full_backward_hook");
  if (options.report != nullptr && !walk.left_out.empty()) {
    std::vector<std::string> names(walk.left_out.begin(), walk.left_out.end());
    std::sort(names.begin(), names.end());
    options.report->warnings.push_back("attributes of the module that are not tensors are left out: " +
                                       core::printable(first_few(names)));
  }
  Dict dict;
  dict.items = std::move(walk.items);
  return Value::dict(std::move(dict));
}

Value read_program(const TorchArchive& archive, const OpenOptions& options) {
  PickleGraph graph = read_object_pickle(archive, options);
  check_symbols(graph, options);
  OpenOptions inner = options;
  inner.foreign_objects = false;  // modules of a program are not Python's
  return weights_of(read_object(archive, graph, inner, SymbolCheck::carry), options);
}

Checkpoint read(const Input& input, const OpenOptions& options) {
  Checkpoint checkpoint;
  checkpoint.root = read_program(TorchArchive::open(input.file, options, ArchiveKind::script), options);
  if (options.report != nullptr) {
    options.report->warnings.emplace_back("this is a TorchScript archive: its weights are read, its program is not");
  }
  return checkpoint;
}

VerifyResult verify(const Input& input, const OpenOptions& options, const Progress& progress) {
  VerifyResult result;
  result.method = "CRC-32 of every record but packed code";
  Report report;
  OpenOptions lenient = options;
  lenient.lenient = true;
  lenient.report = &report;
  TorchArchive archive = TorchArchive::open(input.file, lenient, ArchiveKind::script);
  check_records(archive, progress, result);
  Value root = read_program(archive, lenient);
  if (input.budget) within_budget(root, *input.file, *input.budget);
  for (const std::string& text : report.relaxations) result.damage.push_back({"file", text});
  for (const std::string& text : report.warnings) result.notes.push_back({"archive", text});
  return result;
}

}  // namespace

const Format kTorchScript = {
    .name = "torchscript",
    .title = "TorchScript archive",
    .extensions = {},
    .detect = detect,
    .read = read,
    .verify = verify,
    .has_checksums = true,
    .python = PythonReader::torch_jit,
    .writes_as = "torch-zip",
};

}  // namespace ckpt::detail
