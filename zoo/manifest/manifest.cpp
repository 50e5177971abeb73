#include "zoo/manifest/manifest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "libckpt/io/codec.h"
#include "libckpt/io/parallel_io.h"
#include "libcore/base/edit_distance.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "zoo/manifest/packed.h"
#include "zoo/manifest/runnable.h"

namespace zoo {
namespace {

constexpr std::string_view kStart = "# name ";
/// The text is ours, but a bound costs nothing.
constexpr std::uint64_t kMaxText = 64ULL << 20;

/// Names that people use for models whose list has another.
struct Alias {
  std::string_view name;
  std::string_view model;
};
constexpr std::array kAliases = {
    Alias{"bert", "bert_base"},
    Alias{"bert_base_uncased", "bert_base"},
    Alias{"bert_large_uncased", "bert_large"},
    Alias{"clip_vit_base_patch32", "clip_base_patch32"},
    Alias{"distilbert", "distilbert_base"},
    Alias{"distilbert_base_uncased", "distilbert_base"},
    Alias{"gemma_2_2b", "gemma_2_2b_shape"},
    Alias{"gpt2_small", "gpt2"},
    Alias{"lenet", "lenet5"},
    Alias{"llama", "llama_7b_shape"},
    Alias{"llama_2_7b", "llama_7b_shape"},
    Alias{"llama2_7b", "llama_7b_shape"},
    Alias{"llama3_8b", "llama_3_8b_shape"},
    Alias{"meta_llama_3_8b", "llama_3_8b_shape"},
    Alias{"mistral_7b_v0_1", "mistral_7b_shape"},
    Alias{"nanogpt", "nanogpt_gpt2"},
    Alias{"qwen2_0_5b", "qwen2_half_b_shape"},
    Alias{"roberta", "roberta_base"},
    Alias{"t5", "t5_small"},
    Alias{"vit_base_patch16_224", "vit_b_16"},
};

struct Block {
  std::string_view name;
  std::string_view text;  ///< without the line of the name
};

class Archive {
 public:
  Archive() {
    ckpt::Bytes packed = packed_manifests();
    std::uint64_t size = ckpt::zstd_content_size(packed).value_or(0);
    if (size == 0 || size > kMaxText) throw core::Error(core::ErrorCode::internal, "the packed key lists are damaged");
    bytes_ = ckpt::zstd_decompress(packed, size);
    std::string_view text = core::as_text(bytes_);
    while (text.starts_with(kStart)) {
      text.remove_prefix(kStart.size());
      std::size_t line = text.find('\n');
      std::size_t next = text.find("\n# name ", line);
      std::size_t end = next == std::string_view::npos ? text.size() : next + 1;
      blocks_.push_back({text.substr(0, line), text.substr(line + 1, end - line - 1)});
      text.remove_prefix(end);
    }
  }
  const std::vector<Block>& blocks() const { return blocks_; }
  const Block* find(std::string_view name) const {
    auto at = std::lower_bound(blocks_.begin(), blocks_.end(), name,
                               [](const Block& block, std::string_view wanted) { return block.name < wanted; });
    return at != blocks_.end() && at->name == name ? &*at : nullptr;
  }

 private:
  core::ByteVector bytes_;
  std::vector<Block> blocks_;
};

const Archive& archive() {
  static const Archive unpacked;
  return unpacked;
}

/// The value of a line "# word value" near the start of a block.
std::string_view described(std::string_view text, std::string_view word) {
  std::string start = "# " + std::string(word) + " ";
  while (text.starts_with("# ")) {
    std::size_t end = std::min(text.find('\n'), text.size());
    if (text.starts_with(start)) return text.substr(start.size(), end - start.size());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {};
}

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string normal_name(std::string_view name) {
  std::string out(name.substr(name.find('/') == std::string_view::npos ? 0 : name.rfind('/') + 1));
  for (char& c : out) {
    c = c == '-' || c == '.' || c == ' ' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const Alias& alias : kAliases) {
    if (alias.name == out) return std::string(alias.model);
  }
  return out;
}

}  // namespace

const std::vector<ManifestInfo>& list_manifests() {
  static const std::vector<ManifestInfo> list = [] {
    std::vector<ManifestInfo> infos;
    for (const Block& block : archive().blocks()) {
      infos.push_back({std::string(block.name), std::string(described(block.text, "reference")),
                       std::string(described(block.text, "arguments")), number(described(block.text, "parameters")),
                       number(described(block.text, "tensors")), is_runnable(block.name)});
    }
    return infos;
  }();
  return list;
}

std::optional<ckpt::KeyList> find_manifest(std::string_view name) {
  std::string normal = normal_name(name);
  const Block* block = archive().find(normal);
  if (block == nullptr) block = archive().find(normal + "_shape");
  if (block == nullptr) return std::nullopt;
  return ckpt::parse_key_list(block->text, std::string(block->name));
}

std::vector<std::string> similar_names(std::string_view name, std::size_t max) {
  constexpr std::size_t kMaxName = 64;
  std::string wanted = normal_name(name.substr(0, kMaxName));
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const Block& block : archive().blocks()) {
    std::size_t away = core::edit_distance(wanted, block.name);
    bool holds = wanted.size() > 2 && block.name.find(wanted) != std::string_view::npos;
    if (holds || away <= wanted.size() / 3 + 1) ranked.emplace_back(away, block.name);
  }
  std::stable_sort(ranked.begin(), ranked.end());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(max, ranked.size()); ++i) names.push_back(ranked[i].second);
  return names;
}

const std::vector<ckpt::KeyList>& all_manifests() {
  static const std::vector<ckpt::KeyList> lists = [] {
    const std::vector<Block>& blocks = archive().blocks();
    std::vector<ckpt::KeyList> all(blocks.size());
    ckpt::parallel_for(blocks.size(), 0, [&](std::size_t i) {
      all[i] = ckpt::parse_key_list(blocks[i].text, std::string(blocks[i].name));
    });
    return all;
  }();
  return lists;
}

}  // namespace zoo
