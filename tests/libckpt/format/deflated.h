#pragma once
// Deflates bytes as zip records and HDF5 chunks have them, for files that inflate to more than they are.
// Thread safety: pure functions. Use: std::string raw = test::deflated(content, test::DeflateForm::zip);

#include <zlib.h>

#include <stdexcept>
#include <string>

namespace test {

enum class DeflateForm { zip, zlib };  ///< without and with a header

inline std::string deflated(const std::string& content, DeflateForm form) {
  z_stream stream = {};
  int bits = form == DeflateForm::zip ? -MAX_WBITS : MAX_WBITS;
  if (deflateInit2(&stream, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::runtime_error("deflate");
  std::string out(deflateBound(&stream, content.size()), '\0');
  std::string in = content;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  int code = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw std::runtime_error("deflate");
  return out;
}

}  // namespace test
