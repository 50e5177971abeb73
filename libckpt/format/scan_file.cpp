#include "libckpt/format/scan_file.h"

#include "libckpt/format/dcp/data_files.h"
#include "libckpt/format/dcp/dcp.h"
#include "libckpt/format/deepspeed/deepspeed.h"
#include "libckpt/format/fsdp/fsdp.h"
#include "libckpt/format/megatron/megatron.h"
#include "libckpt/format/shard_index.h"

namespace ckpt::detail {

std::vector<std::string> files_beside(const Input& input, const OpenOptions& options) {
  if (std::vector<std::string> parts = zero_files_beside(input); !parts.empty()) return parts;
  if (std::vector<std::string> parts = megatron_files_beside(input); !parts.empty()) return parts;
  if (std::vector<std::string> parts = fsdp_files_beside(input); !parts.empty()) return parts;
  constexpr std::string_view kSuffixes[] = {".safetensors", ".bin", ".pt", ".pth"};
  std::string text;
  if (!is_shard_index(input, text)) return {};
  return read_shard_index(input, options, kSuffixes).files;
}

std::filesystem::path folder_of_files(const Input& input) {
  const std::filesystem::path folder = input.path.parent_path();
  return is_megatron_part(input) ? folder.parent_path() : folder;
}

std::vector<std::pair<std::string, SourcePtr>> pieces_beside(const Input& input, const OpenOptions& options) {
  if (!kDcp.detect(input)) return {};
  OpenOptions keeping = options;
  keeping.foreign_objects = true;
  PickleGraph graph = read_dcp_pickle(*input.file, keeping);
  DcpMetadata metadata = read_dcp_metadata(graph, keeping);
  DcpFiles files(input.path.parent_path(), metadata.save_id, options);
  std::vector<std::pair<std::string, SourcePtr>> pieces;
  auto add = [&](const std::optional<DcpPlace>& place) {
    if (place) pieces.emplace_back(place->file + " at byte " + std::to_string(place->offset), files.range(*place));
  };
  for (const DcpItem& item : metadata.items) {
    add(item.place);
    for (const DcpChunk& chunk : item.chunks) add(chunk.place);
  }
  return pieces;
}

}  // namespace ckpt::detail
