#include "libckpt/format/deepspeed/zero_join.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "libckpt/checkpoint.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/io/joined_source.h"
#include "libckpt/transform/cast_values.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using Kind = Value::Kind;

/// Values of one type, one behind the other.
struct Run {
  DType dtype = DType::f32;
  SourcePtr bytes;

  std::uint64_t width() const { return static_cast<std::uint64_t>(core::bit_width(dtype)) / 8; }
  std::uint64_t count() const { return bytes->size() / width(); }
};

Run joined_runs(const std::vector<Run>& runs) {
  if (runs.empty()) corrupt("a group of parameters has no values");
  std::vector<SourcePtr> parts;
  for (const Run& run : runs) {
    if (run.dtype != runs[0].dtype) corrupt("the parts of a parameter have different types");
    parts.push_back(run.bytes);
  }
  return {runs[0].dtype, joined(std::move(parts))};
}

Run run_of(const Value& value) {
  bool tensor = value.is(Kind::tensor) && value.as_entry().bytes != nullptr;
  if (!tensor || core::bit_width(value.as_entry().dtype) % 8 != 0) corrupt("a part of the parameters is no tensor");
  return {value.as_entry().dtype, value.as_entry().bytes};
}

/// A torch.Size, or a list of numbers.
core::Shape shape_of(const Value& value) {
  const Value* sizes = &value;
  if (value.is(Kind::object) && value.as_object().args.is(Kind::tuple) &&
      value.as_object().args.as_list().size() == 1) {
    sizes = value.as_object().args.as_list().data();
  }
  core::Shape out;
  if (!sizes->is(Kind::tuple) && !sizes->is(Kind::list)) corrupt("a parameter has no shape");
  for (const Value& size : sizes->as_list()) {
    if (!size.is(Kind::integer) || size.as_integer() < 0) corrupt("a parameter has a dimension that is no size");
    out.push_back(size.as_integer());
  }
  return out;
}

std::uint64_t count_of(const core::Shape& shape) {
  std::optional<std::uint64_t> count = core::try_numel(shape.span());
  if (!count || *count > UINT64_MAX / 16) corrupt("a parameter has the impossible shape " + core::to_list(shape));
  return *count;
}

/// [name, shape] of every parameter.
using Shapes = std::vector<std::pair<std::string, core::Shape>>;

Shapes shapes_in(const Value& dict) {
  if (!dict.is(Kind::dict)) corrupt("the shapes of the parameters are no dict");
  Shapes out;
  for (const auto& [name, shape] : dict.as_dict().items) {
    core::with_context(core::quote(step_text(name)), [&] { out.emplace_back(step_text(name), shape_of(shape)); });
  }
  return out;
}

/// One dict for each group of the optimizer.
std::vector<Shapes> groups_of_shapes(const Value& model) {
  const Value& all = required(model, "param_shapes");
  if (all.is(Kind::dict)) return {shapes_in(all)};
  if (!all.is(Kind::list)) corrupt("the shapes of the parameters are no list");
  std::vector<Shapes> out;
  for (const Value& group : all.as_list()) out.push_back(shapes_in(group));
  return out;
}

std::uint64_t rounded_up(std::uint64_t count, std::uint64_t to) {
  return (count + to - 1) / to * to;
}

class ZeroJoin {
 public:
  explicit ZeroJoin(const ZeroFiles& files) : files_(files), model_(files.models[0]) {}

  Value run() {
    add_buffers();
    add_frozen();
    files_.stage == 3 ? add_split_by_parameter() : add_split_by_group();
    add_shared();
    Dict dict;
    dict.type = "collections.OrderedDict";
    dict.items = std::move(items_);
    return Value::dict(std::move(dict));
  }

 private:
  std::uint64_t ranks() const { return files_.optimizers.size(); }

  void set(const std::string& name, Value value) {
    auto [at, fresh] = places_.emplace(name, items_.size());
    if (fresh) {
      items_.emplace_back(Value::text(name), std::move(value));
    } else {
      items_[at->second].second = std::move(value);
    }
  }

  /// `values` in this shape, from the front.
  void add(const std::string& name, const core::Shape& shape, const Run& values) {
    auto entry = std::make_shared<Entry>();
    entry->dtype = values.dtype;
    entry->shape = shape;
    entry->bytes = slice(values.bytes, 0, count_of(shape) * values.width());
    set(name, Value::tensor(std::move(entry)));
  }

  /// As float32, whatever they were: so does DeepSpeed's script.
  void add_buffers() {
    const Value& names = required(model_, "buffer_names");
    const Value& module = required(model_, "module");
    if (!names.is_sequence() || !module.is(Kind::dict)) corrupt("the buffers of the model are no list of names");
    std::unordered_set<std::string> wanted;
    for (const Value& name : names.as_list()) wanted.insert(step_text(name));
    for (const auto& [key, value] : module.as_dict().items) {
      if (!wanted.contains(step_text(key)) || !value.is(Kind::tensor) || !value.as_entry().bytes) continue;
      auto entry = std::make_shared<Entry>();
      entry->shape = value.as_entry().shape;
      entry->bytes = cast_source(value.as_entry().bytes, value.as_entry().dtype, DType::f32);
      set(step_text(key), Value::tensor(std::move(entry)));
    }
  }

  void add_frozen() {
    const Value* shapes = model_.find("frozen_param_shapes");
    if (shapes == nullptr || shapes->is_null()) return;
    for (const auto& [name, shape] : shapes_in(*shapes)) {
      core::with_context("the frozen parameter " + core::quote(name), [&] {
        std::vector<Run> parts;
        for (const Value& model : files_.models) {
          parts.push_back(run_of(required(required(model, "frozen_param_fragments"), name)));
        }
        Run values = joined_runs(parts);
        require_enough(values, 0, count_of(shape));
        add(name, shape, values);
      });
    }
  }

  static void require_enough(const Run& values, std::uint64_t from, std::uint64_t count) {
    if (from <= values.count() && count <= values.count() - from) return;
    corrupt("it needs " + core::format_count(count) + " values where " +
            core::format_count(values.count() - std::min(from, values.count())) + " are left of its group");
  }

  std::vector<std::vector<Run>> parts_of_ranks(std::string_view key) const {
    std::vector<std::vector<Run>> out;
    for (std::size_t rank = 0; rank < files_.optimizers.size(); ++rank) {
      std::vector<Run> parts;
      core::with_context(core::quote(files_.names[rank]), [&] {
        const Value& groups = required(files_.optimizers[rank], key);
        if (!groups.is(Kind::list)) corrupt("the parts of the parameters are no list");
        for (const Value& group : groups.as_list()) parts.push_back(run_of(group));
      });
      if (!out.empty() && parts.size() != out[0].size()) corrupt("two processes have different groups of parameters");
      out.push_back(std::move(parts));
    }
    return out;
  }

  /// Stages 1 and 2: the parameters of a group lie one behind the other, and every process has a piece of them all.
  void add_split_by_group() {
    const std::vector<std::vector<Run>> parts = parts_of_ranks("single_partition_of_fp32_groups");
    const std::vector<Shapes> groups = groups_of_shapes(model_);
    if (groups.size() != parts[0].size()) {
      corrupt("the model has " + std::to_string(groups.size()) + " groups of parameters, the optimizer " +
              std::to_string(parts[0].size()));
    }
    for (std::size_t group = 0; group < groups.size(); ++group) {
      std::vector<Run> pieces;
      for (const std::vector<Run>& rank : parts) pieces.push_back(rank[group]);
      add_group(groups[group], joined_runs(pieces), group);
    }
  }

  void add_group(const Shapes& shapes, const Run& values, std::size_t group) {
    std::uint64_t at = 0;
    for (const auto& [name, shape] : shapes) {
      const std::uint64_t count = count_of(shape);
      core::with_context("the parameter " + core::quote(name), [&] { require_enough(values, at, count); });
      Run own = {values.dtype, slice(values.bytes, at * values.width(), count * values.width())};
      add(name, shape, own);
      at += count;
    }
    // The whole is filled up to a multiple of twice the processes, in two places.
    const std::uint64_t step = 2 * ranks();
    if (rounded_up(at, step) == rounded_up(values.count(), step)) return;
    corrupt("group " + std::to_string(group) + " of the parameters has " + core::format_count(values.count()) +
            " values where its shapes need " + core::format_count(at));
  }

  /// Stage 3: every parameter is cut for itself, each piece filled up to the same length.
  void add_split_by_parameter() {
    std::vector<Run> ranks_values;
    for (const std::vector<Run>& rank : parts_of_ranks("fp32_flat_groups")) ranks_values.push_back(joined_runs(rank));
    std::uint64_t at = 0;
    for (const Shapes& shapes : groups_of_shapes(model_)) {
      for (const auto& [name, shape] : shapes) {
        core::with_context("the parameter " + core::quote(name), [&] { at += add_cut(name, shape, ranks_values, at); });
      }
    }
    if (at == ranks_values[0].count()) return;
    corrupt("each process has " + core::format_count(ranks_values[0].count()) + " values where the shapes need " +
            core::format_count(at));
  }

  /// Returns the values of each process.
  std::uint64_t add_cut(const std::string& name, const core::Shape& shape, const std::vector<Run>& ranks_values,
                        std::uint64_t at) {
    const std::uint64_t count = count_of(shape);
    const std::uint64_t each = count / ranks() + (count % ranks() == 0 ? 0 : 1);
    std::vector<Run> pieces;
    for (const Run& rank : ranks_values) {
      require_enough(rank, at, each);
      pieces.push_back({rank.dtype, slice(rank.bytes, at * rank.width(), each * rank.width())});
    }
    add(name, shape, joined_runs(pieces));
    return each;
  }

  void add_shared() {
    const Value* shared = model_.find("shared_params");
    if (shared == nullptr || !shared->is(Kind::dict)) return;
    for (const auto& [name, source] : shared->as_dict().items) {
      auto known = places_.find(step_text(source));
      if (known != places_.end()) set(step_text(name), items_[known->second].second);
    }
  }

  const ZeroFiles& files_;
  const Value& model_;
  std::vector<std::pair<Value, Value>> items_;
  std::unordered_map<std::string, std::size_t> places_;
};

}  // namespace

Value join_zero(const ZeroFiles& files) {
  return ZeroJoin(files).run();
}

}  // namespace ckpt::detail
