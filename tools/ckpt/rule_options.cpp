#include "tools/ckpt/rule_options.h"

#include "libckpt/io/byte_source.h"
#include "libckpt/limits.h"
#include "libcore/base/error.h"

namespace cli {

ckpt::Rules read_rules(const std::string& path) {
  core::ByteVector text = core::with_context(path, [&] {
    ckpt::SourcePtr file = ckpt::open_file(path);
    if (file->size() > ckpt::Limits().max_json_bytes) {
      throw core::Error(core::ErrorCode::refused, "too large for a file of rules");
    }
    return ckpt::read_all(*file);
  });
  return ckpt::parse_rules(core::as_text(text), path);
}

}  // namespace cli
