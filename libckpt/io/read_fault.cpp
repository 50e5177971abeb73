#include "libckpt/io/read_fault.h"

#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"

namespace ckpt::detail {

std::string read_fault(const ByteSource& source) {
  try {
    for_each_part(source, [](Bytes) {});
    return "";
  } catch (const core::Error& error) {
    if (error.code() == core::ErrorCode::io || error.code() == core::ErrorCode::refused) throw;
    return error.message();
  }
}

}  // namespace ckpt::detail
