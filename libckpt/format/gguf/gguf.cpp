#include "libckpt/format/gguf/gguf.h"

#include "libckpt/format/gguf/gguf_file.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kExtensions[] = {".gguf"};

bool detect(const Input& input) {
  return core::as_text(input.head).starts_with(kGgufMagic);
}

}  // namespace

const Format kGguf = {
    .name = "gguf",
    .title = "GGUF file",
    .extensions = kExtensions,
    .detect = detect,
    .read = read_gguf,
    .obstacles = gguf_obstacles,
    .write = write_gguf,
    .edit = edit_gguf,
    .verify = verify_gguf,
    .holds_blocks = true,
    .python = PythonReader::gguf,
    .edited_part = "header",
};

}  // namespace ckpt::detail
