#include "libckpt/format/dcp/parts_file.h"

#include <algorithm>
#include <set>

#include "libckpt/format/corrupt.h"
#include "libckpt/io/hash_text.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kHead = "ckpt-part 1 ";

std::string_view text_at(const JsonView& object, std::string_view key) {
  JsonView value = object.at(key);
  if (!value.is(JsonView::Kind::text)) corrupt("its " + core::quote(key) + " is no text");
  return value.as_text();
}

std::uint64_t count_at(const JsonView& object, std::string_view key) {
  JsonView value = object.at(key);
  if (!value.is_count()) corrupt("its " + core::quote(key) + " is no count");
  return value.as_unsigned();
}

PartsFile parse(const JsonView& root) {
  PartsFile out;
  if (count_at(root, "ckpt_parts") != 1) {
    throw Error(ErrorCode::unsupported, "it is of a later version of this library");
  }
  out.save_id = text_at(root, "save_id");
  out.ranks = count_at(root, "ranks");
  out.replicated_pieces = count_at(root, "replicated_pieces");
  out.bytes_saved = count_at(root, "bytes_saved");
  out.parts = read_parts(root);
  for (const PartFacts& part : out.parts) {
    if (part.file.find_first_of("/\\") == std::string::npos) continue;
    throw Error(ErrorCode::refused, "it names the file " + core::quote(part.file) + ", which is not beside it");
  }
  std::sort(out.parts.begin(), out.parts.end(), [](const auto& a, const auto& b) { return a.file < b.file; });
  return out;
}

}  // namespace

const PartFacts* PartsFile::find(std::string_view file) const {
  auto at = std::lower_bound(parts.begin(), parts.end(), file,
                             [](const PartFacts& part, std::string_view name) { return part.file < name; });
  return at != parts.end() && at->file == file ? &*at : nullptr;
}

void write_parts(JsonWriter& json, const std::vector<PartFacts>& parts) {
  json.key("parts").begin_array();
  for (const PartFacts& part : parts) {
    json.begin_object();
    json.key("file").value(part.file);
    json.key("size").value(part.size);
    json.key("hash").value(to_hex(part.hash));
    json.end_object();
  }
  json.end_array();
}

std::vector<PartFacts> read_parts(const JsonView& index) {
  JsonView list = index.at("parts");
  if (!list.is(JsonView::Kind::array)) corrupt("its 'parts' is no list");
  std::vector<PartFacts> parts;
  std::set<std::string> seen;
  for (const JsonView& part : list.items()) {
    std::string_view digits = text_at(part, "hash");
    std::optional<Hash128> hash = hash_from_hex(digits);
    if (!hash) corrupt("its hash is " + core::quote(digits));
    PartFacts facts{std::string(text_at(part, "file")), count_at(part, "size"), *hash};
    if (!seen.insert(facts.file).second) corrupt("it names " + core::quote(facts.file) + " twice");
    parts.push_back(std::move(facts));
  }
  return parts;
}

core::ByteVector encode_parts_file(const PartsFile& parts) {
  JsonWriter json(1);
  json.begin_object();
  json.key("ckpt_parts").value(1);
  json.key("save_id").value(parts.save_id);
  json.key("ranks").value(parts.ranks);
  json.key("replicated_pieces").value(parts.replicated_pieces);
  json.key("bytes_saved").value(parts.bytes_saved);
  write_parts(json, parts.parts);
  json.end_object();
  std::string text = json.take() + "\n";
  return {core::as_bytes(text).begin(), core::as_bytes(text).end()};
}

PartsFile read_parts_file(const ByteSource& file, const OpenOptions& options) {
  return core::with_context(std::string(kPartsFile), [&] {
    if (file.size() > options.limits.max_json_bytes) {
      throw Error(ErrorCode::refused, "it holds " + core::format_size(file.size()));
    }
    JsonDocument json = JsonDocument::parse(read_all(file), {.max_depth = 8, .what = "the list of parts"});
    if (!json.root().is(JsonView::Kind::object)) corrupt("it is no list of parts");
    return parse(json.root());
  });
}

std::string part_name(std::uint64_t rank) {
  return "__" + std::to_string(rank) + "_0.distcp";
}

std::string save_id_of(const Hash128& hash) {
  std::string hex = to_hex(hash);
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20);
}

core::ByteVector part_head(const std::string& save_id) {
  std::string text = std::string(kHead) + save_id + "\n";
  text.resize(kPartHead, '\0');
  return {core::as_bytes(text).begin(), core::as_bytes(text).end()};
}

std::string save_id_in(const ByteSource& part) {
  core::ByteVector head(std::min(kPartHead, part.size()));
  part.read(0, head);
  std::string_view text = core::as_text(head);
  std::size_t end = text.find('\n');
  if (!text.starts_with(kHead) || end == std::string_view::npos) return "";
  return std::string(text.substr(kHead.size(), end - kHead.size()));
}

bool is_dcp_file(std::string_view name) {
  bool hidden = is_lock_name(name) || is_record_name(name) || temporary_owner(name).has_value();
  return name == kDcpMetadata || name == ".metadata.tmp" || name == kPartsFile || name.ends_with(".distcp") || hidden;
}

}  // namespace ckpt::detail
