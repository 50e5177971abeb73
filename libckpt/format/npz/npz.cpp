#include "libckpt/format/npz/npz.h"

#include "libckpt/format/npz/npz_archive.h"
#include "libckpt/format/save_file.h"
#include "libckpt/hint.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kNpyExtensions[] = {".npy"};
constexpr std::string_view kNpzExtensions[] = {".npz"};
constexpr std::string_view kZipMagic = "PK\x03\x04";
constexpr std::string_view kEmptyZip = "PK\x05\x06";
constexpr std::size_t kLocalHeader = 30;

bool detect_npy(const Input& input) {
  return core::as_text(input.head).starts_with(kNpyMagic);
}

/// An archive without records is an .npz of no arrays, unless its name says that PyTorch should have filled it.
bool is_for_pytorch(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  return extension == ".pt" || extension == ".pth" || extension == ".bin";
}

/// The first record is an array, or there is none at all. Also true for files that are cut off.
bool detect_npz(const Input& input) {
  std::string_view head = core::as_text(input.head);
  if (head.starts_with(kEmptyZip)) return !is_for_pytorch(input.path);
  if (!head.starts_with(kZipMagic) || head.size() < kLocalHeader) return false;
  auto length = core::load_le<std::uint16_t>(input.head.data() + 26);
  constexpr std::string_view kEnd = ".npy";
  if (length < kEnd.size()) return false;
  std::uint64_t at = kLocalHeader + length - kEnd.size();  // may lie behind the head: a name has up to 65,535 bytes
  core::ByteVector end(kEnd.size());
  if (!input.file || input.file->size() < at + end.size()) return false;
  try {
    input.file->read(at, end);
  } catch (const core::Error&) {
    return false;  // whoever reads on will say what is wrong with the file
  }
  return core::as_text(end) == kEnd;
}

NpyArray open_array(const Input& input, const OpenOptions& options) {
  NpyArray array = array_behind(read_npy_header(*input.file, options.limits.max_rank), input.file);
  if (array.trailing == 0) return array;
  std::string what = core::format_count(array.trailing) + " bytes after the array";
  if (!options.lenient) {
    throw HintedError(ErrorCode::corrupt, what + " belong to nothing (a second array, perhaps)",
                      Hint{"{} reads the first", {{Hint::Option::lenient}}});
  }
  if (options.report != nullptr) options.report->relaxations.push_back(what + " are let pass");
  return array;
}

Checkpoint read_npy(const Input& input, const OpenOptions& options) {
  Checkpoint checkpoint;
  NpyArray array = open_array(input, options);
  warn_about_void("", *array.entry, options.report);
  checkpoint.root = Value::tensor(std::move(array.entry));
  return checkpoint;
}

/// The one tensor that a file can hold, with its name; null when there is another number of them.
const Entry* only_tensor(const Value& root, std::string& name) {
  if (root.is(Value::Kind::tensor)) return &root.as_entry();
  if (!root.is(Value::Kind::dict) || root.as_dict().items.size() != 1) return nullptr;
  const auto& [key, value] = root.as_dict().items.front();
  name = step_text(key);
  return value.is(Value::Kind::tensor) ? &value.as_entry() : nullptr;
}

std::vector<Obstacle> npy_obstacles(const Checkpoint& checkpoint, const SaveOptions&) {
  std::string name;
  const Entry* entry = only_tensor(checkpoint.root, name);
  if (entry == nullptr) return {{"", Obstacle::Kind::top, "anything but one tensor; .npz holds several"}};
  if (!entry->bytes) return {no_data_obstacle(name)};
  if (entry->conjugate || entry->negative) return {pending_obstacle(name)};
  if (npy_descr(entry->dtype).empty()) return {dtype_obstacle(name, entry->dtype)};
  return {};
}

void write_npy(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  std::string name;
  const Entry* entry = only_tensor(checkpoint.root, name);
  if (entry == nullptr || !npy_obstacles(checkpoint, options).empty()) {
    throw Error(ErrorCode::unsupported, "nothing would be left to be written");
  }
  warn_about_metadata(checkpoint, options.report);
  if (!name.empty() && options.report != nullptr) {
    options.report->warnings.push_back("the name " + core::quote(name) + " is not kept: the format has none");
  }
  SourcePtr bytes = make_npy(*entry);
  AtomicFile file(path, file_options(options, bytes->size()));
  for_each_part(*bytes, [&](Bytes part) {
    file.write(part);
    if (options.progress) options.progress(file.position(), bytes->size());
  });
  file.commit();
  if (options.report == nullptr) return;
  options.report->bytes_written += bytes->size();
  options.report->rung = "rewrite";
}

VerifyResult verify_npy(const Input& input, const OpenOptions& options, const Progress& progress) {
  VerifyResult result;
  result.method = "structure, and that every byte can be read";
  NpyArray array = open_array(input, options);
  for_each_part(*array.entry->bytes, [&](Bytes part) {
    result.bytes_checked += part.size();
    if (progress) progress(result.bytes_checked, array.entry->byte_size());
  });
  result.tensors_checked = 1;
  return result;
}

}  // namespace

const Format kNpy = {
    .name = "npy",
    .title = "NumPy array",
    .extensions = kNpyExtensions,
    .detect = detect_npy,
    .read = read_npy,
    .obstacles = npy_obstacles,
    .write = write_npy,
    .verify = verify_npy,
    .holds_metadata = false,
    .holds_lone_tensor = true,
};

const Format kNpz = {
    .name = "npz",
    .title = "NumPy archive",
    .extensions = kNpzExtensions,
    .detect = detect_npz,
    .read = read_npz,
    .obstacles = npz_obstacles,
    .write = write_npz,
    .edit = edit_npz,
    .verify = verify_npz,
    .holds_metadata = false,
    .has_checksums = true,
    .python = PythonReader::numpy,
    .edited_part = "directory",
};

}  // namespace ckpt::detail
