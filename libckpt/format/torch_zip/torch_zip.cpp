#include "libckpt/format/torch_zip/torch_zip.h"

#include <array>

#include "libckpt/io/edit_journal.h"
#include "libckpt/io/zip.h"
#include "libcore/base/error.h"

namespace ckpt::detail {
namespace {

constexpr std::string_view kMagic = "PK\x03\x04";
constexpr std::size_t kLocalHeader = 30;
constexpr std::array<std::string_view, 4> kExtensions = {".pth", ".pt", ".bin", ".pth.tar"};

/// Name of the record at the head of the file, as far as it lies in the head.
std::string_view first_name(Bytes head) {
  if (head.size() < kLocalHeader) return {};
  auto length = core::load_le<std::uint16_t>(head.data() + 26);
  return core::as_text(head.subspan(kLocalHeader)).substr(0, length);
}

bool has_pickle(const ZipArchive& zip) {
  if (zip.members().empty()) return false;
  const std::string& first = zip.members().front().name;
  return zip.find(first.substr(0, first.find('/') + 1) + "data.pkl") != nullptr;
}

/// PyTorch's own test is the first four bytes. An archive without a readable directory is ours too: nobody else would
/// say that it is cut off.
bool detect(const Input& input) {
  std::string_view head = core::as_text(input.head);
  if (head.size() < kMagic.size()) return head.size() > 1 && kMagic.starts_with(head);  // cut off inside the magic
  if (!head.starts_with(kMagic)) return false;
  if (first_name(input.head).ends_with("/data.pkl")) return true;
  try {
    ZipReadOptions options;
    options.accept_trailing = true;
    return has_pickle(ZipArchive::open(input.file, options));
  } catch (const core::Error&) {
    return true;
  }
}

}  // namespace

const Format kTorchZip = {
    .name = "torch-zip",
    .title = "PyTorch zip checkpoint",
    .extensions = kExtensions,
    .detect = detect,
    .read = read_torch_zip,
    .obstacles = torch_zip_obstacles,
    .write = write_torch_zip,
    .edit = edit_torch_zip,
    .cut_appended = cut_torch_zip,
    .verify = verify_torch_zip,
    .holds_metadata = false,
    .holds_views = true,
    .holds_lone_tensor = true,
    .has_checksums = true,
    .torch_save = true,
    .objects = CarriedObjects::passed_on,
    .python = PythonReader::torch_load,
    .edited_part = "data.pkl and directory",
    .unused = torch_zip_unused,
};

}  // namespace ckpt::detail
