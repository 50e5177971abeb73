// Golden data set: sharded state dicts of PyTorch's FSDP, saved by torch.distributed.checkpoint (make_fsdp.py).
#include <cstdio>

#include "libckpt/format/dcp/encode.h"
#include "libckpt/format/dcp/metadata_stream.h"
#include "tests/libckpt/format/joined_folders.h"
#include "tests/support/golden.h"

namespace {

/// What PyTorch wrote is read while it goes by, as the reader of whole pickles reads it.
bool is_streamed(const std::filesystem::path& metadata) {
  using namespace ckpt::detail;
  const ckpt::SourcePtr file = ckpt::open_file(metadata);
  const std::optional<DcpMetadata> streamed = stream_dcp_metadata(*file, {});
  const DcpMetadata whole = read_dcp_metadata(read_dcp_pickle(*file, {}), ckpt::OpenOptions());
  const bool same = streamed && encode_dcp_metadata(*streamed) == encode_dcp_metadata(whole);
  if (!same) std::printf("%s: not read while it goes by, or not the same\n", metadata.c_str());
  return same;
}

}  // namespace

int main() {
  int result = test::run_joined_folders("fsdp_dcp", "dcp");
  if (result != 0) return result;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(test::golden_dir() / "fsdp_dcp")) {
    if (entry.path().filename() == ".metadata" && !is_streamed(entry.path())) result = 1;
  }
  return result;
}
