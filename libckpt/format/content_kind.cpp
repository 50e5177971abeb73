#include "libckpt/format/content_kind.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "libckpt/format/flax/msgpack_reader.h"
#include "libckpt/format/onnx/onnx_model.h"
#include "libckpt/format/torch/legacy_stream.h"

namespace ckpt::detail {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kHead = 4096;
constexpr std::string_view kHdf5 = "\x89HDF\r\n\x1a\n"sv;
constexpr std::string_view kNativeStart =
    "\x89"
    "CKPT"sv;

bool is_hdf5_at(const ByteSource& source, std::uint64_t at) {
  std::array<std::byte, 8> found{};
  if (source.size() < at + found.size()) return false;
  source.read(at, found);
  return core::as_text(found) == kHdf5;
}

/// A signature behind a user block, which HDF5 looks for at 512 and its doubles.
bool has_user_block(const ByteSource& source) {
  for (std::uint64_t at = 512; at <= (1ULL << 30) && at < source.size(); at *= 2) {
    if (is_hdf5_at(source, at)) return true;
  }
  return false;
}

bool is_safetensors(std::string_view head, std::uint64_t size) {
  if (head.size() < 10) return false;
  auto length = core::load_le<std::uint64_t>(core::as_bytes(head).data());
  return head[8] == '{' && length >= 2 && length <= size - 8;
}

bool is_text(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](unsigned char c) { return c >= 0x20 || (c >= '\t' && c <= '\r'); });
}

struct Magic {
  std::string_view bytes;
  ContentKind kind;
};
constexpr auto kMagics = std::to_array<Magic>({
    {"PK\x03\x04"sv, ContentKind::zip},
    {"PK\x05\x06"sv, ContentKind::zip},
    {"\x93NUMPY"sv, ContentKind::npy},
    {"GGUF"sv, ContentKind::gguf},
    {kHdf5, ContentKind::hdf5},
});

struct Promise {
  std::string_view extension;
  std::string_view what;
  std::string_view contents;  ///< names that keep it, between blanks
};
constexpr std::string_view kTorch = " torch-zip torch-legacy torch-tar torchscript deepspeed-zero megatron fsdp pt2 ";
constexpr auto kPromises = std::to_array<Promise>({
    {".safetensors", "a safetensors file", " safetensors "},
    {".npz", "a NumPy archive", " npz "},
    {".npy", "a NumPy array", " npy "},
    {".gguf", "a GGUF file", " gguf "},
    {".h5", "an HDF5 file", " hdf5 "},
    {".hdf5", "an HDF5 file", " hdf5 "},
    {".msgpack", "a msgpack file of flax", " flax "},
    {".onnx", "an ONNX model", " onnx "},
    {".keras", "a Keras archive", " keras keras-zip "},
    {".pth", "a PyTorch file", kTorch},
    {".pt", "a PyTorch file", kTorch},
    {".ptl", "a PyTorch file", kTorch},
    {".bin", "a PyTorch file", kTorch},
    {".pkl", "a pickle", " pickle torch-legacy "},
    {".pdparams", "parameters of Paddle", " pickle "},
    {".pt2", "an archive of torch.export", " pt2 "},
    {".pickle", "a pickle", " pickle torch-legacy "},
    {".ckpt", "a checkpoint", " native torch-zip torch-legacy torch-tar torchscript "},
});

/// The protocol, and an opcode behind it. NUL is none: there a pickle would end, and the length of a header of
/// safetensors goes on.
bool is_pickle(std::string_view head) {
  bool protocol = head.size() > 1 && head[0] == '\x80' && static_cast<unsigned char>(head[1]) <= 16;
  return protocol && (head.size() == 2 || head[2] != '\0');
}

}  // namespace

ContentKind content_kind(const ByteSource& source) {
  if (source.size() == 0) return ContentKind::empty;
  core::ByteVector bytes(std::min(kHead, source.size()));
  source.read(0, bytes);
  std::string_view head = core::as_text(bytes);
  for (const Magic& magic : kMagics) {
    if (head.starts_with(magic.bytes)) return magic.kind;
  }
  if (head.starts_with(kNativeStart)) return ContentKind::native;
  if (head.size() > 262 && head.substr(257, 5) == "ustar") return ContentKind::tar;
  if (is_legacy_stream(bytes)) return ContentKind::legacy_stream;
  if (is_pickle(head)) return ContentKind::pickle;
  if (is_safetensors(head, source.size())) return ContentKind::safetensors;
  std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first != head.npos && (head[first] == '{' || head[first] == '[') && is_text(head)) return ContentKind::json;
  if (has_user_block(source)) return ContentKind::hdf5;
  if (head.front() == '\x08' && looks_like_onnx(source)) return ContentKind::onnx;
  if (looks_like_flax(source)) return ContentKind::flax;
  return is_text(head) ? ContentKind::text : ContentKind::unknown;
}

std::string_view promised_instead(const std::filesystem::path& path, std::string_view content) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const Promise& promise : kPromises) {
    if (!name.ends_with(promise.extension)) continue;
    bool kept = promise.contents.find(" " + std::string(content) + " ") != std::string_view::npos;
    return kept ? std::string_view() : promise.what;
  }
  return {};
}

}  // namespace ckpt::detail
