#include "tools/run/gguf_folder.h"

#include <fcntl.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>

#include "libckpt/hint.h"
#include "libckpt/hub/gguf_model.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/quantize.h"
#include "libcore/base/error.h"

namespace cli {

using core::Error;
using core::ErrorCode;
namespace fs = std::filesystem;

bool names_gguf(const RunOptions& options) {
  std::error_code ignored;
  return fs::path(options.model).extension() == ".gguf" && fs::is_regular_file(options.model, ignored);
}

GgufFolder::GgufFolder(const RunOptions& options) : file_(options.model) {
  ckpt::OpenOptions open;
  open.lenient = options.lenient;
  const ckpt::Checkpoint stored = ckpt::open(file_, open);
  ckpt::GgufModelReport report;
  ckpt::HubModel model = core::with_context(
      file_, [&] { return ckpt::from_gguf_model(ckpt::dequantize(stored, {.threads = options.threads}), &report); });
  weights_ = std::move(model.weights);
  notes_ = std::move(report.notes);
  make_folder();
  try {
    for (const auto& [name, bytes] : model.files) write(name, bytes);
  } catch (...) {
    remove();  // which no destructor does of what was not made whole
    throw;
  }
}

GgufFolder::~GgufFolder() {
  remove();
}

void GgufFolder::remove() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

void GgufFolder::make_folder() {
  std::string name = (fs::temp_directory_path() / "ckpt-gguf-XXXXXX").string();
  ckpt::detail::Step step;
  if (::mkdtemp(name.data()) == nullptr) {
    throw Error(ErrorCode::io, std::string("cannot create a temporary folder: ") + std::strerror(errno) +
                                   " (set TMPDIR to use another folder)")
        .add_context(name);
  }
  folder_ = name;
  pending_folder_.emplace(AT_FDCWD, folder_.native());
}

void GgufFolder::write(const std::string& name, core::Bytes bytes) {
  const fs::path path = folder_ / name;
  pending_files_.emplace_back(AT_FDCWD, path.native());
  ckpt::AtomicFile file(path, {.durable = false, .lock = false});
  file.write(bytes);
  file.commit();
}

void GgufFolder::store_weights() {
  const fs::path path = folder_ / "model.safetensors";
  pending_files_.emplace_back(AT_FDCWD, path.native());
  ckpt::save(weights_, path, {.durable = false});
}

core::Error GgufFolder::by_file(const core::Error& error) const {
  ckpt::HintedError said(error.code(), error.message(), ckpt::hint_of(error));
  const std::vector<std::string>& context = error.context();
  for (auto subject = context.rbegin(); subject != context.rend(); ++subject) {
    said.add_context(subject->starts_with(folder_.string()) ? file_ : *subject);
  }
  return said;
}

}  // namespace cli
