#include <algorithm>
#include <array>
#include <cctype>

#include "libckpt/budget.h"
#include "libckpt/format/dcp/dcp.h"
#include "libckpt/format/deepspeed/deepspeed.h"
#include "libckpt/format/flax/flax.h"
#include "libckpt/format/folder.h"
#include "libckpt/format/format.h"
#include "libckpt/format/fsdp/fsdp.h"
#include "libckpt/format/gguf/gguf.h"
#include "libckpt/format/hdf5_foreign/hdf5_foreign.h"
#include "libckpt/format/hdf5_foreign/user_block.h"
#include "libckpt/format/megatron/megatron.h"
#include "libckpt/format/native/native.h"
#include "libckpt/format/npz/npz.h"
#include "libckpt/format/onnx/onnx.h"
#include "libckpt/format/parts/parts.h"
#include "libckpt/format/pickle_arrays/pickle_arrays.h"
#include "libckpt/format/pt2/pt2.h"
#include "libckpt/format/safetensors/safetensors.h"
#include "libckpt/format/sniff.h"
#include "libckpt/format/torch_legacy/torch_legacy.h"
#include "libckpt/format/torch_sharded/torch_sharded.h"
#include "libckpt/format/torch_zip/torch_zip.h"
#include "libckpt/format/torchscript/torchscript.h"
#include "libckpt/io/atomic_folder.h"
#include "libckpt/io/mapped_file.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/io/unpacked_file.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

/// The explicit list: a format that is not here does not exist. Cheap and certain tests stand first.
constexpr std::array kFormats = {
    &detail::kDeepSpeedZero,
    &detail::kMegatron,
    &detail::kFsdp,
    &detail::kNative,
    &detail::kKerasZip,
    &detail::kNpz,
    &detail::kTorchScript,
    &detail::kTorchZip,
    &detail::kTorchLegacy,
    &detail::kTorchTar,
    &detail::kGguf,
    &detail::kNpy,
    &detail::kDcp,
    &detail::kParts,
    &detail::kTorchSharded,
    &detail::kSafetensors,
    &detail::kSafetensorsSharded,
    &detail::kHdf5,
    &detail::kOnnx,
    &detail::kFlax,
    &detail::kPickleArrays,
    &detail::kPt2,
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Cheaper than list_entries(), and nearly always the end of it. Stops at objects, whose tensors are never in blocks.
bool has_blocks(const Value& root) {
  std::vector<const Value*> open = {&root};
  while (!open.empty()) {
    const Value& value = *open.back();
    open.pop_back();
    if (value.is(Value::Kind::tensor) && value.as_entry().blocks) return true;
    if (value.is(Value::Kind::dict)) {
      for (const auto& item : value.as_dict().items) open.push_back(&item.second);
    } else if (value.is_sequence()) {
      for (const Value& item : value.as_list()) open.push_back(&item);
    }
  }
  return false;
}

}  // namespace

namespace {

/// What the caller named is followed wherever it leads; the file that a folder offered may not lead out of it.
SourcePtr open_named(const std::filesystem::path& named, const std::filesystem::path& path,
                     const OpenOptions& options) {
  if (path == named) return open_file(path);
  return core::with_context(path.filename().string(), [&] {
    const std::filesystem::path name = is_remote_name(named) ? path.filename() : path.lexically_relative(named);
    return detail::open_in_folder(named, name, detail::links_of(options), "the folder");
  });
}

}  // namespace

namespace {

core::ByteVector head_of(const ByteSource& file) {
  constexpr std::uint64_t kHeadBytes = 4096;
  core::ByteVector head(std::min(kHeadBytes, file.size()));
  file.read(0, head);
  return head;
}

/// What was packed counts as what lies on the disk, so that a small file cannot claim more by being packed.
void unpack(Input& input, const OpenOptions& options) {
  const detail::Packer packer = detail::packer_of(input.head);
  // An HDF5 file may begin with anything, as far as its signature stands behind it.
  if (packer == detail::Packer::none || detail::user_block_size(*input.file) != 0) return;
  const Limits& limits = options.limits;
  const std::uint64_t size = input.file->size();
  const std::uint64_t times =
      size > UINT64_MAX / std::max<std::uint64_t>(limits.max_expansion, 1) ? UINT64_MAX : size * limits.max_expansion;
  SourcePtr file = detail::unpacked(*input.file, packer, std::max(limits.expansion_floor, times));
  input.file = detail::reached(std::move(file), Io::buffered, options.residency);
  input.head = head_of(*input.file);
  input.budget->set_packed();
  if (options.report == nullptr) return;
  options.report->warnings.push_back("this is a " + std::string(name(packer)) + " file, which was unpacked (" +
                                     core::format_size(input.file->size()) +
                                     ") to be read; other programs need it unpacked");
}

}  // namespace

Input open_input(const std::filesystem::path& given, const OpenOptions& options) {
  std::filesystem::path named = is_remote_name(given) ? given : moved_aside(given);
  std::filesystem::path path = resolve_folder(named);
  Input input{path, open_named(named, path, options), {}, nullptr};
  input.from_folder = path != named;
  // Through the page cache, since the next one who opens it asks for the same; how tensors are read is said afterwards.
  input.file = detail::reached(std::move(input.file), Io::buffered, options.residency);
  input.budget = std::make_shared<Budget>(options.limits, input.file->size());
  input.head = head_of(*input.file);
  unpack(input, options);
  return input;
}

std::span<const Format* const> formats() {
  return kFormats;
}

const Format* find_format(std::string_view name) {
  for (const Format* format : formats()) {
    if (format->name == name) return format;
  }
  return nullptr;
}

const Format* find_format_for(const std::filesystem::path& target) {
  std::string file = lower(target.filename().string());
  for (const Format* format : formats()) {
    for (std::string_view extension : format->extensions) {
      if (file.ends_with(extension)) return format;
    }
  }
  return nullptr;
}

std::vector<Obstacle> find_obstacles(const Format& format, const Checkpoint& checkpoint, const SaveOptions& options) {
  if (format.obstacles == nullptr) return {};
  std::vector<Obstacle> found = format.obstacles(checkpoint, options);
  if (format.holds_blocks || !has_blocks(checkpoint.root)) return found;
  for (const NamedEntry& named : list_entries(checkpoint.root)) {
    if (!named.entry->blocks) continue;
    found.push_back({named.name, Obstacle::Kind::blocks, "quantised blocks of type " + named.entry->blocks->name});
  }
  return found;
}

const Format& detect_format(const Input& input) {
  for (const Format* format : formats()) {
    if (format->detect(input)) return *format;
  }
  throw core::Error(core::ErrorCode::unsupported, describe_foreign(input));
}

}  // namespace ckpt
