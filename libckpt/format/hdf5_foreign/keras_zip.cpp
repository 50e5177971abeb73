// ".keras" archives: a zip with the weights as one HDF5 file and the configuration as JSON beside it.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "libckpt/budget.h"
#include "libckpt/format/hdf5_foreign/hdf5_foreign.h"
#include "libckpt/format/hdf5_foreign/read.h"
#include "libckpt/io/checked_source.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/remote_name.h"
#include "libckpt/io/zip.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kMagic = "PK\x03\x04";
constexpr std::size_t kLocalHeader = 30;
constexpr std::string_view kWeights = "model.weights.h5";
constexpr std::uint64_t kMaxJson = 16ULL << 20;

/// Name of the record at the head of the file, as far as it lies in the head.
std::string_view first_name(Bytes head) {
  if (head.size() < kLocalHeader || !core::as_text(head).starts_with(kMagic)) return {};
  auto length = core::load_le<std::uint16_t>(head.data() + 26);
  return core::as_text(head.subspan(kLocalHeader)).substr(0, length);
}

ZipArchive open_archive(const Input& input, const OpenOptions& options) {
  ZipReadOptions zip_options;
  zip_options.max_members = options.limits.max_zip_members;
  zip_options.max_name = options.limits.max_name;
  zip_options.accept_trailing = options.lenient;
  zip_options.max_expansion = options.limits.max_expansion;
  zip_options.expansion_floor = options.limits.expansion_floor;
  ZipArchive zip = ZipArchive::open(input.file, zip_options);
  if (zip.trailing_bytes() > 0 && options.report != nullptr) {
    options.report->relaxations.push_back(core::format_size(zip.trailing_bytes()) + " follow the archive");
  }
  return zip;
}

/// A copy in a file without a name, for bytes that lie in no file as they are: HDF5 is read all over the place.
SourcePtr spooled(const SourcePtr& source) {
  std::string folder = std::filesystem::temp_directory_path().string();
  Fd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!fd) throw_errno(errno, "cannot unpack into " + core::quote(folder));
  std::uint64_t at = 0;
  for_each_part(*source, [&](Bytes part) {
    while (!part.empty()) {
      ssize_t n = ::pwrite(fd.get(), part.data(), part.size(), static_cast<off_t>(at));
      if (n < 0) throw_errno(errno, "cannot unpack into " + core::quote(folder));
      at += static_cast<std::uint64_t>(n);
      part = part.subspan(static_cast<std::size_t>(n));
    }
  });
  return open_file("/proc/self/fd/" + std::to_string(fd.get()));
}

SourcePtr weights_of(const ZipArchive& zip, const OpenOptions& options) {
  if (const ZipMember* member = zip.find(kWeights)) {
    SourcePtr payload =
        checked(zip.payload(*member), member->crc32,
                {.subject = "the record " + core::quote(kWeights) + ", which holds all tensors, is damaged",
                 .before_use = options.check_hashes,
                 .lenient = options.lenient && !options.check_hashes});
    return payload->file_range() ? payload : spooled(payload);
  }
  if (zip.find("model.weights.npz") != nullptr) {
    throw Error(ErrorCode::unsupported,
                "the weights of this Keras archive are pickled NumPy objects (model.weights.npz), which are not read");
  }
  throw Error(ErrorCode::unsupported, "this Keras archive has no weights: model.weights.h5 is missing");
}

}  // namespace

bool detect_keras_zip(const Input& input) {
  std::string_view first = first_name(input.head);
  return first == "metadata.json" || first == "config.json" || first == kWeights;
}

Checkpoint read_keras_zip(const Input& input, const OpenOptions& options) {
  if (is_far(*input.file)) {
    throw Error(ErrorCode::unsupported, "Keras files are not read from other machines; download the file first");
  }
  ZipArchive zip = open_archive(input, options);
  SourcePtr weights = weights_of(zip, options);
  Checkpoint checkpoint = core::with_context(std::string(kWeights), [&] {
    warn_of_user_block(weights, options);
    return read_hdf5_tree(weights, options);
  });
  for (const char* name : {"metadata.json", "config.json"}) {
    const ZipMember* member = zip.find(name);
    if (member == nullptr || member->size > kMaxJson) continue;
    core::ByteVector text = read_all(*zip.payload(*member));
    if (core::is_utf8(core::as_text(text))) checkpoint.metadata.emplace_back(name, core::as_text(text));
  }
  return checkpoint;
}

VerifyResult verify_keras_zip(const Input& input, const OpenOptions& options, const Progress& progress) {
  VerifyResult result;
  result.method = "CRC-32 of every member and reading every chunk";
  result.checksums = ChecksumCover::all;
  ZipArchive zip = open_archive(input, options);
  for (const ZipMember& member : zip.members()) {
    if (member.is_folder()) continue;
    if (crc32(*zip.payload(member)) != member.crc32)
      result.damage.push_back({member.name, "its CRC-32 is not the recorded one"});
  }
  if (!result.damage.empty()) return result;  // no tensor can be told from another then
  Checkpoint checkpoint = read_keras_zip(input, options);
  if (input.budget) checkpoint.root = within_budget(checkpoint.root, *input.file, *input.budget);
  verify_tensors(checkpoint, options, progress, result);
  return result;
}

}  // namespace ckpt::detail
