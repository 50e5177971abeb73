#include "libckpt/format/tensor_codec.h"

#include "libckpt/format/hdf5_write/payload_source.h"

namespace ckpt {

std::string_view codec_of(const Entry& entry) {
  const detail::StoredPayload* stored = entry.bytes ? detail::stored_payload(*entry.bytes) : nullptr;
  if (stored == nullptr) return "none";
  switch (stored->payload().codec) {
    case detail::NativeCodec::raw:
    case detail::NativeCodec::elsewhere:  // its source is that of the file which holds it
      return "none";
    case detail::NativeCodec::zstd:
      return "zstd";
    case detail::NativeCodec::gzip:
      return "gzip";
    case detail::NativeCodec::fast:
      return "fast";
    case detail::NativeCodec::delta:
      return "delta";
    case detail::NativeCodec::trimmed:
      return "trimmed";
  }
  return "none";
}

}  // namespace ckpt
