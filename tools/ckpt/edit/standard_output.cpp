#include "tools/ckpt/edit/standard_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "libckpt/io/byte_source.h"
#include "libckpt/io/checksum.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/line/standard_input.h"

namespace cli {

bool is_standard_output(const std::filesystem::path& target) {
  return target == "-";
}

void check_standard_output() {
  if (::isatty(STDOUT_FILENO) != 1) return;
  throw core::Error(core::ErrorCode::usage, "is a terminal; pipe it into a program or a file, or name a file with -o")
      .add_context("standard output");
}

StandardOutputFile::StandardOutputFile() : folder_(temporary_folder() + "/ckpt-XXXXXX") {
  ckpt::detail::Step step;
  if (::mkdtemp(folder_.data()) == nullptr) {
    throw core::Error(core::ErrorCode::io, std::string("cannot create a temporary folder: ") + std::strerror(errno) +
                                               " (set TMPDIR to use another folder)")
        .add_context(folder_);
  }
  pending_folder_.emplace(AT_FDCWD, folder_);
  pending_file_.emplace(AT_FDCWD, path().native());
}

StandardOutputFile::~StandardOutputFile() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void StandardOutputFile::send(Output& out) const {
  ckpt::SourcePtr file = ckpt::open_file(path());
  ckpt::for_each_part(*file, [&](ckpt::Bytes part) { out.print_bytes(core::as_text(part)); });
  out.flush();
}

}  // namespace cli
