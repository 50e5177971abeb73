#include "libckpt/io/unpacked_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>

#include "libckpt/hint.h"
#include "libckpt/io/file_ops.h"
#include "libckpt/io/file_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::uint64_t kPackedPiece = 64 << 10;
constexpr std::uint64_t kOutput = 1 << 20;

[[noreturn]] void fail_unpacking(const std::string& how) {
  throw Error(ErrorCode::corrupt, "the packed data are damaged or cut off: " + how);
}

std::filesystem::path temporary_folder() {
  const char* chosen = std::getenv("TMPDIR");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return ::access("/var/tmp", W_OK | X_OK) == 0 ? "/var/tmp" : "/tmp";
}

/// Grows at its end; nobody else sees it.
class UnnamedFile {
 public:
  explicit UnnamedFile(std::uint64_t most) : folder_(temporary_folder()), most_(most) {
    fd_ = Fd(::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (fd_) return;
    std::string name = (folder_ / "ckpt-unpacked-XXXXXX").string();  // a file system without O_TMPFILE
    fd_ = Fd(::mkostemp(name.data(), O_CLOEXEC));
    if (!fd_) throw_errno(errno, doing());
    ::unlink(name.c_str());
  }

  void append(Bytes bytes) {
    if (bytes.size() > most_ - size_) {
      throw HintedError(
          ErrorCode::refused,
          "it unpacks to more than " + core::format_size(most_) + ", which is not accepted from a file of its size",
          Hint{"{} allows more", {{Hint::Option::max_expansion}}});
    }
    require_allowed(size_ + bytes.size());
    if (int error = write_fully(fd_.get(), size_, bytes); error != 0) throw_errno(error, doing());
    size_ += bytes.size();
  }

  SourcePtr take() { return source_of(std::move(fd_), folder_ / "ckpt-unpacked"); }

 private:
  std::string doing() const {
    return "cannot unpack it to a temporary file in " + core::quote(folder_.string()) +
           " (set TMPDIR to use another folder)";
  }

  std::filesystem::path folder_;
  std::uint64_t most_;
  Fd fd_;
  std::uint64_t size_ = 0;
};

/// The packed bytes, piece by piece.
class Input {
 public:
  explicit Input(const ByteSource& source) : source_(source) {}
  /// Empty at the end.
  Bytes next() {
    piece_.resize(std::min(kPackedPiece, source_.size() - taken_));
    source_.read(taken_, piece_);
    taken_ += piece_.size();
    return piece_;
  }

 private:
  const ByteSource& source_;
  core::ByteVector piece_;
  std::uint64_t taken_ = 0;
};

/// Of gzip, and of zlib, which is the same data with less around them.
template <bool kGzip>
class InflateDecoder {
 public:
  explicit InflateDecoder(UnnamedFile& out) : out_(out), buffer_(kOutput) {
    int code = inflateInit2(&stream_, (kGzip ? 16 : 0) + MAX_WBITS);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code != Z_OK) throw Error(ErrorCode::internal, "zlib cannot be started");
  }
  ~InflateDecoder() { inflateEnd(&stream_); }
  InflateDecoder(const InflateDecoder&) = delete;
  InflateDecoder& operator=(const InflateDecoder&) = delete;

  void take(Bytes piece) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
    stream_.avail_in = static_cast<uInt>(piece.size());
    do step();
    while (stream_.avail_in > 0 || stream_.avail_out == 0);
  }
  void finish() const {
    if (!ended_) fail_unpacking(kGzip ? "the gzip data end early" : "the zlib data end early");
  }

 private:
  void step() {
    if (ended_ && stream_.avail_in > 0) begin_member();
    if (ended_) {
      stream_.avail_out = 1;  // there is nothing left to give out
      return;
    }
    stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_out = static_cast<uInt>(buffer_.size());
    int code = ::inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_MEM_ERROR) throw std::bad_alloc();
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      fail_unpacking(stream_.msg == nullptr ? "they do not inflate"
                                            : (kGzip ? "gzip says " : "zlib says ") + std::string(stream_.msg));
    }
    ended_ = code == Z_STREAM_END;
    out_.append(Bytes(buffer_).first(buffer_.size() - stream_.avail_out));
  }

  /// Several gzip files one behind the other are one; zeros may fill up the last block of a tape.
  void begin_member() {
    if (!kGzip) fail_unpacking("other bytes follow the zlib data");
    while (stream_.avail_in > 0 && *stream_.next_in == 0) {
      ++stream_.next_in;
      --stream_.avail_in;
      filled_ = true;
    }
    if (stream_.avail_in == 0) return;
    if (filled_ || *stream_.next_in != 0x1f) fail_unpacking("other bytes follow the gzip data");
    inflateReset(&stream_);
    ended_ = false;
  }

  UnnamedFile& out_;
  core::ByteVector buffer_;
  z_stream stream_ = {};
  bool ended_ = false;
  bool filled_ = false;
};

class ZstdDecoder {
 public:
  explicit ZstdDecoder(UnnamedFile& out) : out_(out), context_(ZSTD_createDCtx()), buffer_(kOutput) {
    if (!context_) throw std::bad_alloc();
  }

  void take(Bytes piece) {
    ZSTD_inBuffer in = {piece.data(), piece.size(), 0};
    bool full = true;
    while (in.pos < in.size || full) {
      const std::size_t begun = in.pos;
      ZSTD_outBuffer given = {buffer_.data(), buffer_.size(), 0};
      std::size_t left = ZSTD_decompressStream(context_.get(), &given, &in);
      if (ZSTD_isError(left) != 0) fail(left);
      out_.append(Bytes(buffer_).first(given.pos));
      full = given.pos == given.size;
      // A call that finds nothing more says how much the next frame needs, whether there is one or not.
      if (in.pos > begun || given.pos > 0) inside_ = left != 0;
    }
  }
  void finish() const {
    if (inside_) fail_unpacking("the zstd data end early");
  }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  [[noreturn]] static void fail(std::size_t result) {
    ZSTD_ErrorCode code = ZSTD_getErrorCode(result);
    if (code == ZSTD_error_memory_allocation) throw std::bad_alloc();
    if (code == ZSTD_error_frameParameter_windowTooLarge) {
      throw Error(ErrorCode::unsupported,
                  "it was packed with a window of more than 128 MiB (zstd --long); unpack it first (unzstd --long=31)");
    }
    fail_unpacking(std::string("zstd says ") + ZSTD_getErrorName(result));
  }

  UnnamedFile& out_;
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  core::ByteVector buffer_;
  bool inside_ = false;
};

template <class Decoder>
void decode(const ByteSource& packed, UnnamedFile& out) {
  Decoder decoder(out);
  Input in(packed);
  for (Bytes piece = in.next(); !piece.empty(); piece = in.next()) decoder.take(piece);
  decoder.finish();
}

}  // namespace

Packer packer_of(Bytes head) {
  std::string_view text = core::as_text(head);
  // An HDF5 file may begin with bytes of another program, 512 times a power of two of them.
  for (std::size_t at : {512, 1024, 2048}) {
    if (text.size() > at && text.substr(at).starts_with("\x89HDF\r\n\x1a\n")) return Packer::none;
  }
  // The length of a safetensors header can be the mark of gzip; its '{' stands where gzip has the level of packing.
  const bool safetensors = text.size() > 8 && text[8] == '{';
  if (text.starts_with("\x1f\x8b\x08") && !safetensors) return Packer::gzip;
  // pzstd begins with a frame that is passed over.
  const bool skippable = text.size() > 4 && (text[0] & 0xf0) == 0x50 && text.substr(1, 3) == "\x2a\x4d\x18";
  if (skippable || text.starts_with("\x28\xb5\x2f\xfd")) return Packer::zstd;
  // What joblib packs with by itself.
  constexpr std::string_view kLevels = "\x01\x5e\x9c\xda";
  const bool zlib = text.size() > 2 && text[0] == '\x78' && kLevels.find(text[1]) != std::string_view::npos;
  return zlib && !safetensors ? Packer::zlib : Packer::none;
}

Packer packer_of_file(const std::filesystem::path& path) {
  std::array<char, 4096> head{};
  std::ifstream in(path, std::ios::binary);
  in.read(head.data(), head.size());
  return packer_of(core::as_bytes({head.data(), static_cast<std::size_t>(in.gcount())}));
}

Packer packer_named(const std::filesystem::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return std::tolower(c); });
  if (end == ".gz") return Packer::gzip;
  return end == ".zst" || end == ".zstd" ? Packer::zstd : Packer::none;
}

std::string_view name(Packer packer) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "gzip", "zstd", "zlib"};
  return kNames[static_cast<std::size_t>(packer)];
}

SourcePtr unpacked(const ByteSource& packed, Packer packer, std::uint64_t most) {
  UnnamedFile out(most);
  if (packer == Packer::gzip) decode<InflateDecoder<true>>(packed, out);
  if (packer == Packer::zlib) decode<InflateDecoder<false>>(packed, out);
  if (packer == Packer::zstd) decode<ZstdDecoder>(packed, out);
  packed.require_unchanged();
  return out.take();
}

}  // namespace ckpt::detail
