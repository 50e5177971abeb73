#include "libckpt/format/megatron/megatron_join.h"

#include <algorithm>
#include <map>
#include <unordered_set>

#include "libckpt/checkpoint.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/format/megatron/megatron_rules.h"
#include "libckpt/format/megatron/strips.h"
#include "libckpt/io/joined_source.h"
#include "libckpt/transform/same_values.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;

constexpr std::string_view kLayers = "layers.";

/// A tensor of one rank, before it is joined.
struct Part {
  core::DType dtype = core::DType::f32;
  core::Shape shape;
  SourcePtr bytes;

  std::uint64_t rows() const { return static_cast<std::uint64_t>(shape[0]); }
  std::uint64_t row_bytes() const { return bytes->size() / rows(); }
};

/// The tensors of one part of the model: of a stage, or one of several that a stage has in turn.
struct Chunk {
  std::vector<std::vector<NamedEntry>> ranks;
  std::vector<std::map<std::string, EntryPtr>> by_name;  ///< the same
};

/// Where the number of a layer stands in a name: [first, last). An empty one where it has none.
std::pair<std::size_t, std::size_t> number_in(const std::string& name) {
  std::size_t at = name.starts_with(kLayers) ? 0 : name.find("." + std::string(kLayers));
  if (at == std::string::npos) return {0, 0};
  at += kLayers.size() + (at > 0 || !name.starts_with(kLayers) ? 1 : 0);
  const std::size_t end = std::min(name.find_first_not_of("0123456789", at), name.size());
  return end - at > 0 && end - at < 7 ? std::pair(at, end) : std::pair(std::size_t{0}, std::size_t{0});
}

class MegatronJoin {
 public:
  explicit MegatronJoin(const MegatronFiles& files) : files_(files) {}

  Value run() {
    const std::vector<std::string> keys = keys_of_chunks();
    bool first = true;
    for (const std::string& key : keys) {
      for (std::size_t stage = 0; stage < files_.stages; ++stage) {
        std::vector<Chunk> experts;
        for (std::size_t expert = 0; expert < files_.experts; ++expert) experts.push_back(chunk_of(key, stage, expert));
        add_chunk(experts, first);
        first = false;
      }
    }
    if (items_.empty()) corrupt("the checkpoint of Megatron holds no tensors of a model");
    Dict dict;
    dict.type = "collections.OrderedDict";
    dict.items = std::move(items_);
    return Value::dict(std::move(dict));
  }

 private:
  /// 'model', or 'model0', 'model1', ... of stages that have several parts of the model in turn.
  std::vector<std::string> keys_of_chunks() const {
    const Value& root = files_.roots[0];
    if (root.find("model") != nullptr) return {"model"};
    std::vector<std::string> keys;
    while (root.find("model" + std::to_string(keys.size())) != nullptr) {
      keys.push_back("model" + std::to_string(keys.size()));
    }
    if (keys.empty()) corrupt(core::quote(files_.names[0]) + ": it has no 'model', so it is none of Megatron's files");
    return keys;
  }

  Chunk chunk_of(const std::string& key, std::size_t stage, std::size_t expert) const {
    Chunk chunk;
    for (std::size_t rank = 0; rank < files_.tensor; ++rank) {
      const std::size_t at = files_.at(expert, stage, rank);
      const Value* model = files_.roots[at].find(key);
      if (model == nullptr || !model->is(Value::Kind::dict)) {
        corrupt(core::quote(files_.names[at]) + ": it has no dict " + core::quote(key));
      }
      chunk.ranks.push_back(list_entries(*model));
      chunk.by_name.emplace_back();
      for (const NamedEntry& named : chunk.ranks.back()) chunk.by_name.back()[named.name] = named.entry;
      require_known(chunk, rank);
    }
    return chunk;
  }

  /// The first rank has a part of all that others have.
  static void require_known(const Chunk& chunk, std::size_t rank) {
    for (const NamedEntry& named : chunk.ranks[rank]) {
      if (is_state(named.name) || chunk.by_name[0].contains(named.name)) continue;
      corrupt("rank " + std::to_string(rank) + " has the tensor " + core::quote(named.name) + ", and rank 0 does not");
    }
  }

  /// `experts`: the same part of the model on each rank of expert parallelism, which differ in their experts alone.
  void add_chunk(const std::vector<Chunk>& experts, bool first) {
    const Chunk& chunk = experts[0];
    std::map<std::string, std::uint64_t> layers;  // by what stands before the number: the highest number here, and one
    for (const NamedEntry& named : chunk.ranks[0]) {
      if (is_state(named.name) || (!first && is_copy(named.name))) continue;
      const std::string name = numbered(named.name, layers);
      core::with_context("the tensor " + core::quote(named.name), [&] {
        if (experts.size() > 1 && is_of_experts(named.name)) return add_experts(experts, named.name, name);
        if (names_.insert(name).second) add(name, joined_entry(chunk, named.name));
      });
    }
    for (const auto& [stack, count] : layers) layers_before_[stack] += count;
  }

  void add(const std::string& name, EntryPtr entry) {
    items_.emplace_back(Value::text(name), Value::tensor(std::move(entry)));
  }

  /// Each rank has as many, numbered from 0.
  void add_experts(const std::vector<Chunk>& experts, const std::string& name, const std::string& in_model) {
    for (std::size_t i = 1; i < experts.size(); ++i) {
      if (!experts[i].by_name[0].contains(name))
        corrupt("rank " + std::to_string(i) + " of the experts does not have it");
    }
    if (is_grouped(name)) return add(in_model, grouped(experts, name));
    const auto [begin, end] = expert_number_in(in_model);
    if (end == 0) throw Error(ErrorCode::unsupported, "no rule says to which expert it belongs");
    const std::uint64_t own = std::stoull(in_model.substr(begin, end - begin));
    const std::uint64_t each = experts_of_rank(experts[0], name);
    for (std::size_t i = 0; i < experts.size(); ++i) {
      if (experts_of_rank(experts[i], name) != each) corrupt("not all ranks have as many experts");
      const std::string renamed = in_model.substr(0, begin) + std::to_string(i * each + own) + in_model.substr(end);
      if (names_.insert(renamed).second) add(renamed, joined_entry(experts[i], name));
    }
  }

  /// How many names differ from this one in their number alone.
  static std::uint64_t experts_of_rank(const Chunk& chunk, const std::string& name) {
    const auto [begin, end] = expert_number_in(name);
    std::uint64_t count = 0;
    while (chunk.by_name[0].contains(name.substr(0, begin) + std::to_string(count) + name.substr(end))) ++count;
    return count;
  }

  /// [hidden, experts * outputs] and [experts * inputs, hidden] of the same bytes as [experts, ...].
  EntryPtr grouped(const std::vector<Chunk>& experts, const std::string& name) const {
    if (files_.tensor > 1) refuse_grouped();
    auto out = std::make_shared<Entry>();
    const std::size_t dim = name.ends_with("1") ? 1 : 0;
    std::vector<SourcePtr> sources;
    for (const Chunk& chunk : experts) {
      const EntryPtr part = joined_entry(chunk, name);
      if (part->shape.size() != 2) corrupt("its parts are no matrices");
      if (sources.empty()) {
        out->dtype = part->dtype;
        out->shape = part->shape;
        out->shape[dim] = 0;
      }
      if (part->dtype != out->dtype || part->shape[1 - dim] != out->shape[1 - dim]) corrupt("its parts do not fit");
      out->shape[dim] += part->shape[dim];
      sources.push_back(part->bytes);
    }
    out->bytes = joined(std::move(sources));
    return out;
  }

  [[noreturn]] static void refuse_grouped() {
    throw Error(ErrorCode::unsupported,
                "the experts of a rank lie in one matrix (GroupedMLP), which is not joined over tensor-parallel ranks; "
                "Megatron's tools/checkpoint/convert.py saves it with --target-tensor-parallel-size 1");
  }

  /// What Transformer Engine keeps beside the weights.
  static bool is_state(const std::string& name) { return name.ends_with("_extra_state"); }

  /// Of the embedding, in the last stage of a model that ties its output layer to it.
  bool is_copy(const std::string& name) const {
    if (name.find("word_embeddings_for_head") != std::string::npos) return true;
    const Value* untied = files_.find_argument("untie_embeddings_and_output_weights");
    const bool tied = untied != nullptr && untied->is(Value::Kind::boolean) && !untied->as_boolean();
    return tied && name.ends_with("output_layer.weight");
  }

  /// With the layers of the stages before counted in.
  std::string numbered(const std::string& name, std::map<std::string, std::uint64_t>& layers) const {
    const auto [begin, end] = number_in(name);
    if (end == 0) return name;
    const std::string stack = name.substr(0, begin);
    const std::uint64_t number = std::stoull(name.substr(begin, end - begin));
    layers[stack] = std::max(layers[stack], number + 1);
    auto before = layers_before_.find(stack);
    return stack + std::to_string(number + (before == layers_before_.end() ? 0 : before->second)) + name.substr(end);
  }

  EntryPtr joined_entry(const Chunk& chunk, const std::string& name) const {
    std::vector<Part> parts;
    for (std::size_t rank = 0; rank < chunk.by_name.size(); ++rank) {
      auto found = chunk.by_name[rank].find(name);
      if (found == chunk.by_name[rank].end()) corrupt("rank " + std::to_string(rank) + " does not have it");
      const Entry& entry = *found->second;
      if (entry.bytes == nullptr) corrupt("it has no values");
      parts.push_back({entry.dtype, entry.shape, entry.bytes});
      if (entry.dtype != parts[0].dtype) corrupt("its parts have different types");
    }
    auto out = std::make_shared<Entry>();
    out->dtype = parts[0].dtype;
    if (files_.version < 2 && fused_in(name) > 0) {
      for (Part& part : parts) reorder(part, fused_in(name));
    }
    Part whole = parts.size() == 1 ? parts[0] : join(chunk, name, parts);
    out->shape = whole.shape;
    out->bytes = whole.bytes;
    return out;
  }

  Part join(const Chunk& chunk, const std::string& name, const std::vector<Part>& parts) const {
    require_joined_experts(name);
    if (is_grouped(name)) refuse_grouped();
    const std::optional<MegatronRule> rule = rule_of(name);
    if (!rule) return same_on_all(chunk, name, parts);
    for (const Part& part : parts) {
      if (part.shape.size() != parts[0].shape.size()) corrupt("its parts do not fit");
    }
    if (*rule == MegatronRule::same) return whole_on_all(parts);
    for (const Part& part : parts) {
      if (part.shape.empty() || part.bytes->size() == 0) corrupt("its parts do not fit");
    }
    switch (*rule) {
      case MegatronRule::columns:
        return beside(parts);
      case MegatronRule::halves:
        return in_sections(parts, is_gated(chunk, name, parts[0]) ? 2 : 1);
      case MegatronRule::mixer:
        return below(parts, sections_of_mixer(chunk, name, parts[0]));
      default:
        return in_sections(parts, 1);
    }
  }

  void require_joined_experts(const std::string& name) const {
    const std::uint64_t own = files_.number("expert_tensor_parallel_size");
    if (name.find(".experts.") == std::string::npos || own == 0 || own == files_.tensor) return;
    throw Error(ErrorCode::unsupported, "experts that are cut over " + std::to_string(own) +
                                            " ranks where the rest is cut over " + std::to_string(files_.tensor) +
                                            " are not joined");
  }

  static Part same_on_all(const Chunk& chunk, const std::string& name, const std::vector<Part>& parts) {
    for (const auto& rank : chunk.by_name) {
      if (same_values(*chunk.by_name[0].at(name), *rank.at(name))) continue;
      throw Error(ErrorCode::unsupported,
                  "no rule says how its parts belong together, and they are not the same on all " +
                      std::to_string(parts.size()) + " ranks; Megatron's tools/checkpoint/convert.py may join them");
    }
    return parts[0];
  }

  /// Values are not compared: that would read all of them.
  static Part whole_on_all(const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      if (part.shape != parts[0].shape) corrupt("every rank has all of it, and it has not the same shape on all");
    }
    return parts[0];
  }

  static Part beside(const std::vector<Part>& parts) {
    if (parts[0].shape.size() < 2) corrupt("its parts are no matrices");
    Part whole = parts[0];
    whole.shape[1] = 0;
    std::vector<SourcePtr> sources;
    std::vector<std::uint64_t> widths;
    for (const Part& part : parts) {
      core::Shape same = part.shape;
      same[1] = parts[0].shape[1];
      if (same != parts[0].shape) corrupt("its parts do not fit beside each other");
      whole.shape[1] += part.shape[1];
      widths.push_back(part.row_bytes());
      sources.push_back(part.bytes);
    }
    whole.bytes = side_by_side(std::move(sources), parts[0].rows(), std::move(widths));
    return whole;
  }

  /// Each part has so many of the same size, one below the other, and so has the whole.
  static Part in_sections(const std::vector<Part>& parts, std::uint64_t count) {
    return below(parts, std::vector<std::uint64_t>(count, parts[0].rows() / count));
  }

  /// `sections`: the rows of each, in every part.
  static Part below(const std::vector<Part>& parts, const std::vector<std::uint64_t>& sections) {
    Part whole = parts[0];
    whole.shape[0] = 0;
    for (const Part& part : parts) {
      core::Shape same = part.shape;
      same[0] = parts[0].shape[0];
      const bool as_many = sections.size() == 1 || part.shape[0] == parts[0].shape[0];
      if (same != parts[0].shape || !as_many) corrupt("its parts do not fit below each other");
      whole.shape[0] += part.shape[0];
    }
    std::vector<SourcePtr> sources;
    std::uint64_t row = 0;
    for (const std::uint64_t section : sections) {
      for (const Part& part : parts) {
        const std::uint64_t rows = sections.size() == 1 ? part.rows() : section;
        sources.push_back(slice(part.bytes, row * part.row_bytes(), rows * part.row_bytes()));
      }
      row += section;
    }
    whole.bytes = joined(std::move(sources));
    return whole;
  }

  /// The rows of z, x, B, C and dt, or of x, B and C, as the layers beside it say: out_proj takes as many values as x
  /// has rows, and dt_bias has one a head.
  static std::vector<std::uint64_t> sections_of_mixer(const Chunk& chunk, const std::string& name, const Part& part) {
    const std::string mixer = name.substr(0, name.find(".mixer.") + 7);
    auto out = chunk.by_name[0].find(mixer + "out_proj.weight");
    auto heads = chunk.by_name[0].find(mixer + "dt_bias");
    const bool there = out != chunk.by_name[0].end() && heads != chunk.by_name[0].end();
    if (!there || out->second->shape.size() != 2 || heads->second->shape.size() != 1) {
      throw Error(ErrorCode::unsupported,
                  "the mixer is not that of Mamba 2: it has no 'out_proj.weight' and 'dt_bias' that say its sizes");
    }
    const auto inner = static_cast<std::uint64_t>(out->second->shape[1]);
    const auto dt = static_cast<std::uint64_t>(heads->second->shape[0]);
    const bool input = name.ends_with("in_proj.weight");
    const std::uint64_t known = input ? 2 * inner + dt : inner;
    const std::uint64_t state = part.rows() < known ? 1 : part.rows() - known;
    if (state % 2 != 0) {
      corrupt("it has " + std::to_string(part.rows()) + " rows, which are not those of " + std::to_string(inner) +
              " inner values and " + std::to_string(dt) + " heads");
    }
    if (input) return {inner, inner, state / 2, state / 2, dt};
    return {inner, state / 2, state / 2};
  }

  /// Whether there are two rows for each value that the next layer takes.
  static bool is_gated(const Chunk& chunk, const std::string& name, const Part& part) {
    auto behind = chunk.by_name[0].find(name_behind(name));
    if (behind == chunk.by_name[0].end() || behind->second->shape.size() != 2) {
      corrupt("the layer that takes its output is missing, which says whether it has a gate");
    }
    const std::int64_t taken = behind->second->shape[1];
    if (part.shape[0] != taken && part.shape[0] != 2 * taken) {
      corrupt("it has " + std::to_string(part.shape[0]) + " rows, and the next layer takes " + std::to_string(taken));
    }
    return part.shape[0] == 2 * taken;
  }

  /// Fused tensors of old checkpoints: [kinds, heads, size] of version 0 and [heads, size, kinds] of version 1 become
  /// [heads, kinds, size].
  void reorder(Part& part, std::uint64_t kinds) const {
    const std::uint64_t all = files_.number("num_attention_heads");
    if (all == 0 || all % files_.tensor != 0) {
      throw Error(ErrorCode::unsupported,
                  "the checkpoint is of version " + core::python_float(files_.version) +
                      ", whose order of heads depends on how many there are, and it does not say that");
    }
    const std::uint64_t heads = all / files_.tensor;
    const std::uint64_t rows = part.shape.empty() ? 0 : part.rows();
    if (rows == 0 || rows % kinds != 0 || rows / kinds % heads != 0 || part.bytes->size() == 0) {
      corrupt("its " + std::to_string(rows) + " rows are not those of " + std::to_string(heads) + " heads");
    }
    const std::uint64_t size = rows / heads / kinds;
    const std::uint64_t bytes = part.row_bytes();
    std::vector<SourcePtr> pieces;
    for (std::uint64_t head = 0; head < heads; ++head) {
      for (std::uint64_t kind = 0; kind < kinds; ++kind) {
        if (files_.version < 1) {
          pieces.push_back(slice(part.bytes, (kind * heads + head) * size * bytes, size * bytes));
          continue;
        }
        for (std::uint64_t row = 0; row < size; ++row) {
          pieces.push_back(slice(part.bytes, ((head * size + row) * kinds + kind) * bytes, bytes));
        }
      }
    }
    part.bytes = joined(std::move(pieces));
  }

  const MegatronFiles& files_;
  std::map<std::string, std::uint64_t> layers_before_;
  std::unordered_set<std::string> names_;
  std::vector<std::pair<Value, Value>> items_;
};

}  // namespace

Value join_megatron(const MegatronFiles& files) {
  return MegatronJoin(files).run();
}

}  // namespace ckpt::detail
