#include "tests/fuzz/format_targets.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "libckpt/analyze/plain_values.h"
#include "libckpt/format/dcp/encode.h"
#include "libckpt/format/dcp/metadata.h"
#include "libckpt/format/dcp/metadata_stream.h"
#include "libckpt/format/format.h"
#include "libckpt/format/native/layout.h"
#include "libckpt/io/zip.h"
#include "libckpt/open_save.h"
#include "libckpt/scan.h"
#include "libckpt/state_dicts.h"
#include "libckpt/transform/prefix.h"
#include "libcore/base/error.h"
#include "tests/fuzz/difference_targets.h"
#include "tests/fuzz/targets.h"

namespace fuzz {
namespace {

using ckpt::Checkpoint;
using ckpt::Format;
using ckpt::Input;
using core::Bytes;
using core::ByteVector;

constexpr std::uint64_t kReadBudget = 4 << 20;

/// A folder of this process, in memory where the system has such a file system; removed at the end.
class Scratch {
 public:
  Scratch() {
    std::filesystem::path base =
        std::filesystem::exists("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
    path_ = base / ("ckpt-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::filesystem::path file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

const Scratch& scratch() {
  static const Scratch folder;
  return folder;
}

void write_file(const std::filesystem::path& path, Bytes bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

Input input_of(Bytes bytes) {
  Input input;
  input.path = scratch().file("input");
  input.file = ckpt::memory_source(ByteVector(bytes.begin(), bytes.end()));
  std::size_t head = std::min<std::size_t>(bytes.size(), 4096);
  input.head.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(head));
  return input;
}

/// Reads tensors whole as long as the budget lasts, then only their ends.
void touch(const ckpt::ByteSource& source, std::uint64_t& budget) {
  std::uint64_t size = source.size();
  if (size <= budget) {
    budget -= size;
    ckpt::read_all(source);
    return;
  }
  ByteVector part(std::min<std::uint64_t>(size, 64));
  source.read(0, part);
  source.read(size - part.size(), part);
}

void walk(const Checkpoint& checkpoint) {
  std::uint64_t budget = kReadBudget;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
    named.entry->numel();
    if (named.entry->bytes != nullptr) answer([&] { touch(*named.entry->bytes, budget); });
  }
  for (const ckpt::NamedValue& value : ckpt::list_plain_values(checkpoint.root)) ckpt::value_text(value.value);
  ckpt::list_state_dicts(checkpoint.root);
  for (const Format* format : ckpt::formats()) ckpt::find_obstacles(*format, checkpoint, {});
}

/// Some inputs are read leniently; which ones depends on their bytes only.
ckpt::OpenOptions options_for(Bytes bytes, ckpt::Report& report) {
  ckpt::OpenOptions options;
  options.lenient = bytes.size() % 2 == 1;
  options.foreign_objects = bytes.size() % 4 >= 2;
  options.threads = 1;
  options.report = &report;
  return options;
}

void read_as(std::string_view name, Bytes bytes) {
  const Format* format = ckpt::find_format(name);
  if (format == nullptr) return;
  Input input = input_of(bytes);
  format->detect(input);  // may not throw at all
  ckpt::Report report;
  ckpt::OpenOptions options = options_for(bytes, report);
  answer([&] { walk(format->read(input, options)); });
  answer([&] { format->verify(input, options, {}); });
}

/// An archive as torch.save writes it, around any pickle, with so many storages of so many bytes.
ByteVector archive_around(Bytes pickle, std::size_t storages = 3, std::size_t each = 80) {
  std::vector<ckpt::ZipItem> items;
  items.push_back({"a/data.pkl", ckpt::memory_source(ByteVector(pickle.begin(), pickle.end()))});
  for (std::size_t i = 0; i < storages; ++i) {
    items.push_back({"a/data/" + std::to_string(i), ckpt::memory_source(ByteVector(each, std::byte{1}))});
  }
  Bytes version = core::as_bytes("3\n");
  items.push_back({"a/version", ckpt::memory_source(ByteVector(version.begin(), version.end()))});
  ckpt::MemorySink sink;
  ckpt::ZipWriter(std::move(items)).write(sink);
  return sink.take();
}

/// A native file around any index, with the checksums that it must have, so that the bytes get past them.
ByteVector native_around(Bytes index) {
  constexpr std::uint64_t kBody = 16 << 10;
  ckpt::detail::NativeHeader header;
  header.user_block = ckpt::detail::kMinUserBlock;
  while (header.user_block < ckpt::detail::kHeaderBytes + index.size()) header.user_block *= 2;
  header.index_size = index.size();
  header.body_size = kBody;
  header.index_hash = ckpt::hash128(index);
  ByteVector file = ckpt::detail::encode_header(header);
  core::append(file, index);
  file.resize(header.user_block);
  core::append(file, core::as_bytes("\x89HDF\r\n\x1a\n"));
  file.resize(header.user_block + kBody);
  return file;
}

/// Names and bytes must be the same again. What a format cannot hold was left out beforehand.
void require_same(const Checkpoint& a, const Checkpoint& b) {
  auto left = ckpt::list_entries(a.root);
  auto right = ckpt::list_entries(b.root);
  if (left.size() != right.size()) throw std::logic_error("saved and read again: another number of tensors");
  auto by_name = [](const auto& x, const auto& y) { return x.name < y.name; };
  std::stable_sort(left.begin(), left.end(), by_name);
  std::stable_sort(right.begin(), right.end(), by_name);
  for (std::size_t i = 0; i < left.size(); ++i) {
    const ckpt::Entry& x = *left[i].entry;
    const ckpt::Entry& y = *right[i].entry;
    bool same = left[i].name == right[i].name && x.dtype == y.dtype && x.shape == y.shape;
    if (!same) throw std::logic_error("saved and read again: another tensor");
    bool empty = x.bytes == nullptr || y.bytes == nullptr || x.byte_size() > kReadBudget;
    if (!empty && ckpt::read_all(*x.bytes) != ckpt::read_all(*y.bytes)) {
      throw std::logic_error("saved and read again: other bytes");
    }
  }
}

std::uint64_t total_bytes(const Checkpoint& checkpoint) {
  std::uint64_t total = 0;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(checkpoint.root)) {
    std::uint64_t size = named.entry->byte_size();
    total = size > UINT64_MAX - total ? UINT64_MAX : total + size;
  }
  return total;
}

void save_and_compare(const Checkpoint& checkpoint, const std::string& format) {
  std::filesystem::path target = scratch().file("output");
  ckpt::Report report;
  ckpt::SaveOptions options;
  options.format = format;
  options.durable = false;
  options.drop_inexpressible = true;
  options.threads = 1;
  options.report = &report;
  ckpt::save(checkpoint, target, options);
  bool complete = report.dropped.empty();
  try {
    Checkpoint again = ckpt::open(target, {.foreign_objects = true, .threads = 1});
    if (complete && format != "safetensors") require_same(checkpoint, again);
  } catch (const core::Error& error) {
    throw std::logic_error(std::string("what was saved cannot be read: ") + error.what());
  }
}

}  // namespace

void answer(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    std::string text = error.what();
    bool ours = error.code() == core::ErrorCode::internal || text.empty();
    if (ours) throw std::logic_error("an answer that is none: " + text);
  }
}

void run_safetensors(Bytes bytes) {
  read_as("safetensors", bytes);
}
void run_safetensors_index(Bytes bytes) {
  read_as("safetensors-sharded", bytes);
}
void run_torch_zip(Bytes bytes) {
  read_as("torch-zip", bytes);
}
void run_torch_pickle(Bytes bytes) {
  read_as("torch-zip", archive_around(bytes));
}
void run_torch_legacy(Bytes bytes) {
  read_as("torch-legacy", bytes);
}
void run_torch_tar(Bytes bytes) {
  read_as("torch-tar", bytes);
}
void run_native_index(Bytes bytes) {
  answer([&] { ckpt::detail::parse_header(bytes.first(std::min<std::size_t>(bytes.size(), 128))); });
  read_as("native", native_around(bytes));
}
void run_npy(Bytes bytes) {
  read_as("npy", bytes);
}
void run_npz(Bytes bytes) {
  read_as("npz", bytes);
}
void run_gguf(Bytes bytes) {
  read_as("gguf", bytes);
}

void run_flax(Bytes bytes) {
  read_as("flax", bytes);
}

void run_pickle_arrays(Bytes bytes) {
  read_as("pickle", bytes);
}

void run_pt2(Bytes bytes) {
  read_as("pt2", bytes);
}

void run_onnx(Bytes bytes) {
  read_as("onnx", bytes);
}

void run_torchscript(Bytes bytes) {
  read_as("torchscript", bytes);
}

void run_dcp_metadata(Bytes bytes) {
  const Format* format = ckpt::find_format("dcp");
  if (format == nullptr) return;
  Input input = input_of(bytes);
  input.path = scratch().file(".metadata");
  format->detect(input);
  ckpt::Report report;
  ckpt::OpenOptions options = options_for(bytes, report);
  // What is read while it goes by is what the reader of whole pickles takes, and as that reads it.
  std::optional<ckpt::detail::DcpMetadata> streamed;
  answer([&] { streamed = ckpt::detail::stream_dcp_metadata(*input.file, options); });
  std::optional<ckpt::detail::DcpMetadata> whole;
  answer(
      [&] { whole = ckpt::detail::read_dcp_metadata(ckpt::detail::read_dcp_pickle(*input.file, options), options); });
  if (streamed &&
      (!whole || ckpt::detail::encode_dcp_metadata(*whole) != ckpt::detail::encode_dcp_metadata(*streamed))) {
    std::abort();
  }
  answer([&] { walk(format->read(input, options)); });
}

void run_fsdp_ranks(Bytes bytes) {
  const Format* format = ckpt::find_format("fsdp");
  if (format == nullptr) return;
  constexpr std::size_t kMostRanks = 8;
  const std::filesystem::path folder = scratch().file("ranks");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::string_view rest = core::as_text(bytes);
  for (std::size_t rank = 0; rank < kMostRanks; ++rank) {
    const std::size_t end = std::min(rest.find(kBetweenFiles), rest.size());
    // Storages larger than any that a small input asks for, which the lenient reader takes.
    write_file(folder / ("model_rank" + std::to_string(rank) + ".pth"),
               archive_around(core::as_bytes(rest.substr(0, end)), 32, 2048));
    if (end == rest.size()) break;
    rest.remove_prefix(end + kBetweenFiles.size());
  }
  Input input;
  input.path = folder / "model_rank0.pth";
  input.file = ckpt::open_file(input.path);
  input.from_folder = true;
  format->detect(input);
  ckpt::Report report;
  ckpt::OpenOptions options = options_for(bytes, report);
  options.lenient = true;
  answer([&] { walk(format->read(input, options)); });
}

void run_scan(Bytes bytes) {
  std::filesystem::path path = scratch().file("scanned");
  write_file(path, bytes);
  answer([&] { ckpt::scan(path); });
}

void run_strip_reread(Bytes bytes) {
  Input input = input_of(bytes);
  ckpt::Report report;
  answer([&] {
    const Format& format = ckpt::detect_format(input);
    Checkpoint checkpoint = format.read(input, options_for(bytes, report));
    checkpoint.format = format.name;
    if (total_bytes(checkpoint) > kReadBudget) return;
    Checkpoint stripped = checkpoint;
    answer([&] { stripped = ckpt::strip_prefix(checkpoint, {}); });
    std::string same = format.write != nullptr ? std::string(format.name) : "safetensors";
    answer([&] { save_and_compare(stripped, same); });
    if (bytes.size() % 8 == 0) answer([&] { save_and_compare(stripped, "native"); });
  });
}

ByteVector pickle_of(Bytes file) {
  ByteVector out;
  answer([&] {
    ckpt::ZipArchive zip = ckpt::ZipArchive::open(ckpt::memory_source(ByteVector(file.begin(), file.end())));
    for (const ckpt::ZipMember& member : zip.members()) {
      if (member.name.ends_with("/data.pkl")) out = ckpt::read_all(*zip.payload(member));
    }
  });
  return out;
}

namespace {

/// Of the native file that it is saved as.
ByteVector native_index_of(const Checkpoint& checkpoint, ckpt::Codec codec) {
  ckpt::SaveOptions options;
  options.format = "native";
  options.durable = false;
  options.codec = codec;
  std::filesystem::path target = scratch().file("seed");
  ckpt::save(checkpoint, target, options);
  ckpt::SourcePtr saved = ckpt::open_file(target);
  ByteVector head(ckpt::detail::kHeaderBytes);
  saved->read(0, head);
  ByteVector out(ckpt::detail::parse_header(head).index_size);
  saved->read(ckpt::detail::kHeaderBytes, out);
  return out;
}

std::string index_of_trimmed() {
  ckpt::Entry entry;
  entry.dtype = core::DType::bf16;
  entry.shape = {2, 32 << 10};
  entry.bytes = trimmed_bytes();
  ckpt::Dict root;
  root.items.emplace_back(ckpt::Value::text("w"),
                          ckpt::Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry))));
  Checkpoint checkpoint;
  checkpoint.root = ckpt::Value::dict(std::move(root));
  return std::string(core::as_text(native_index_of(checkpoint, ckpt::Codec::zstd)));
}

}  // namespace

ByteVector native_index_of(Bytes file) {
  ByteVector out;
  answer([&] { out = native_index_of(ckpt::detect_format(input_of(file)).read(input_of(file), {}), {}); });
  return out;
}

std::vector<std::string_view> native_indexes() {
  static const std::string trimmed = index_of_trimmed();
  return {trimmed};
}

}  // namespace fuzz
