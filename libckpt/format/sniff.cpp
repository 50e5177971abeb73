#include "libckpt/format/sniff.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

struct Signature {
  std::size_t offset;
  std::string_view bytes;
  std::string_view sentence;
};

using namespace std::string_view_literals;

constexpr std::array kSignatures = {
    Signature{0, "PYTORCH1"sv,
              "this is a container of a preview release of PyTorch, which PyTorch itself no longer reads"sv},
    Signature{0, "\x1f\x8b"sv, "this is a gzip file; decompress it first (gunzip)"sv},
    Signature{0, "7z\xbc\xaf\x27\x1c"sv, "this is a 7-Zip archive; extract it first"sv},
    Signature{0,
              "\xfd"
              "7zXZ"sv,
              "this is an xz file; decompress it first (unxz)"sv},
    Signature{0, "\x04\x22\x4d\x18"sv, "this is an lz4 file; decompress it first (unlz4)"sv},
    Signature{0, "\x5d\0\0"sv, "this is an lzma file; decompress it first (unlzma)"sv},
    Signature{0, "BZh"sv, "this is a bzip2 file; decompress it first (bunzip2)"sv},
    Signature{0, "\x28\xb5\x2f\xfd"sv, "this is a zstd file; decompress it first (unzstd)"sv},
    Signature{0,
              "\x7f"
              "ELF"sv,
              "this is a program or shared library, not a checkpoint"sv},
    Signature{4, "TFL3"sv,
              "this is a TensorFlow Lite model, which is not read; tf2onnx can make an ONNX model of it, which is: "
              "python -m tf2onnx.convert --tflite FILE --output model.onnx"sv},
    Signature{4, "ET12"sv,
              "this is an ExecuTorch program, which is not read; save the state_dict of the module that it was made "
              "from"sv},
    Signature{0, "Rar!"sv, "this is a RAR archive; extract it first"sv},
    Signature{
        257, "ustar"sv,
        "this is a tar archive, but not one of the oldest PyTorch checkpoints; extract it and open what is inside"sv},
};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// The size that a git-LFS pointer promises, 0 when it says none.
std::uint64_t lfs_size(std::string_view text) {
  std::size_t at = text.find("\nsize ");
  return at == std::string_view::npos ? 0 : std::strtoull(std::string(text.substr(at + 6, 24)).c_str(), nullptr, 10);
}

/// Which archive it is can be told from its first record.
std::string describe_zip(std::string_view head) {
  constexpr std::size_t kLocalHeader = 30;
  std::string_view name;
  if (head.size() > kLocalHeader) {
    auto length = core::load_le<std::uint16_t>(core::as_bytes(head).data() + 26);
    name = head.substr(kLocalHeader, length);
  }
  return "this is a zip archive, but not a PyTorch checkpoint: it has no data.pkl";
}

std::string describe_text(std::string_view head) {
  if (head.starts_with("version https://git-lfs")) {
    std::uint64_t size = lfs_size(head);
    std::string promised = size > 0 ? " to " + core::format_size(size) : "";
    return "this is a git-LFS pointer" + promised + ", not the weights; run 'git lfs pull'";
  }
  std::string start = lower(head.substr(0, 512));
  std::size_t first = start.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  std::string_view body = first == std::string::npos ? std::string_view() : std::string_view(start).substr(first);
  if (body.starts_with("<!doctype html") || body.starts_with("<html") || body.starts_with("<head")) {
    return "this is an HTML page, not weights; the download got a web page instead of the file";
  }
  if (body.starts_with("<?xml")) return "this is an XML document, not weights; the download got an error message";
  if (body.starts_with("{") || body.starts_with("[")) {
    return "this is JSON text, not weights: it begins with " + core::quote(head.substr(0, 60), 60);
  }
  return "this is text, not weights: it begins with " + core::quote(head.substr(0, 60), 60);
}

/// A table of TensorFlow ends in its magic number; the file with the values has none, and is known by its name.
bool is_tensorflow(const Input& input) {
  constexpr std::string_view kEnd = "\x57\xfb\x80\x8b\x24\x75\x47\xdb"sv;
  std::string name = input.path.filename().string();
  if (name.find(".data-00000-of-") != std::string::npos) return true;
  if (input.file == nullptr || input.file->size() < kEnd.size()) return false;
  std::array<std::byte, kEnd.size()> end{};
  try {
    input.file->read(input.file->size() - end.size(), end);
  } catch (const core::Error&) {
    return false;  // there is nothing more to say of it then
  }
  return core::as_text(end) == kEnd;
}

bool is_core_ml(const Input& input) {
  return input.path.extension() == ".mlmodel" && !input.head.empty() && input.head[0] == std::byte{8};
}

/// Files of other frameworks that no first bytes tell; "" for none.
std::string describe_framework(const Input& input) {
  if (is_tensorflow(input)) {
    return "this is a part of a TensorFlow checkpoint, which is not read; TensorFlow itself can save its variables: "
           "python -c \"import numpy, tensorflow as tf; r = tf.train.load_checkpoint('PREFIX'); "
           "numpy.savez('variables.npz', **{n: r.get_tensor(n) for n in r.get_variable_to_shape_map()})\"";
  }
  if (is_core_ml(input)) {
    return "this is a Core ML model, which is not read; save the weights of the model that it was made from";
  }
  return "";
}

bool looks_like_text(std::string_view head) {
  return std::all_of(head.begin(), head.end(),
                     [](unsigned char c) { return c >= 0x20 || c == '\n' || c == '\r' || c == '\t'; });
}

}  // namespace

std::string describe_foreign(const Input& input) {
  std::string_view head = core::as_text(input.head);
  if (head.empty()) return "the file is empty (0 bytes); the download or the save did not happen";
  for (const Signature& signature : kSignatures) {
    if (head.size() >= signature.offset && head.substr(signature.offset).starts_with(signature.bytes)) {
      return std::string(signature.sentence);
    }
  }
  if (std::string text = describe_framework(input); !text.empty()) return text;
  if (head.starts_with("PK\x03\x04")) return describe_zip(head);
  if (head.starts_with("PK\x05\x06")) return "this is an empty zip archive: nothing was saved in it";
  if (looks_like_text(head.substr(0, 512))) return describe_text(head);
  if (head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5) {
    return "this is a bare pickle, not a checkpoint written by torch.save";
  }
  if (head.find_first_not_of('\0') == std::string_view::npos)
    return "the file begins with zeros only; it was never filled";
  return "no known checkpoint format begins like this file";
}

}  // namespace ckpt
