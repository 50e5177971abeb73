#include "libckpt/format/flax/flax_tree.h"

#include <algorithm>
#include <array>

#include "libckpt/checkpoint.h"
#include "libckpt/format/corrupt.h"
#include "libckpt/format/flax/msgpack_reader.h"
#include "libckpt/io/joined_source.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::DType;
using core::Error;
using core::ErrorCode;
using Kind = MsgpackToken::Kind;

constexpr std::uint64_t kMaxDepth = 256;
constexpr std::uint64_t kMaxTypeName = 64;
constexpr std::string_view kChunked = "__msgpack_chunked_array__";
enum Extension : std::int8_t { kArray = 1, kComplex = 2, kScalar = 3 };

/// As NumPy calls it.
DType dtype_named(const std::string& name) {
  if (name == "V2") return DType::bf16;  // of old versions
  std::optional<DType> dtype = core::try_parse_dtype(name);
  if (dtype && core::name(*dtype) == name && !core::is_quantized(*dtype)) return *dtype;
  throw Error(ErrorCode::unsupported, "an array of type " + core::quote(name, 40) + " is not a tensor");
}

class TreeReader {
 public:
  TreeReader(const SourcePtr& file, const Limits& limits, const Budget* budget)
      : file_(file), in_(*file, 0, file->size()), limits_(limits), budget_(budget) {}

  Value run() {
    Value root = value(in_.next());
    if (in_.remaining() == 0) return root;
    corrupt(core::format_count(in_.remaining()) + " bytes behind the value belong to nothing");
  }

 private:
  Value value(const MsgpackToken& token) {
    switch (token.kind) {
      case Kind::nil:
        return {};
      case Kind::boolean:
        return Value::boolean(token.integer != 0);
      case Kind::integer:
        return Value::integer(token.integer);
      case Kind::past_64_bits:
        return Value(static_cast<std::uint64_t>(token.integer));
      case Kind::real:
        return Value::real(token.real);
      case Kind::text:
        return Value::text(in_.text(token));
      case Kind::bytes:
        return Value::bytes(in_.bytes(token));
      case Kind::array:
        return list(token);
      case Kind::map:
        return map(token);
      case Kind::extension:
        return extension(token);
    }
    return {};
  }

  /// Before memory is taken for what `token` holds.
  void enter(const MsgpackToken& token) {
    values_ += token.size;
    if (budget_ != nullptr) budget_->require_values(values_);
    if (++depth_ <= std::min(kMaxDepth, limits_.max_depth)) return;
    throw Error(ErrorCode::refused, "dicts and lists are nested more than " + std::to_string(kMaxDepth) + " deep");
  }

  Value list(const MsgpackToken& token) {
    enter(token);
    Value::List items;
    for (std::uint64_t i = 0; i < token.size; ++i) items.push_back(value(in_.next()));
    --depth_;
    return Value::list(std::move(items));
  }

  Value key() {
    MsgpackToken token = in_.next();
    if (token.kind == Kind::integer) return Value::integer(token.integer);
    if (token.kind != Kind::text) corrupt("a key at byte " + std::to_string(in_.position()) + " is no text");
    if (token.size > limits_.max_name) {
      throw Error(ErrorCode::refused, "a key is " + core::format_size(token.size) + " long where at most " +
                                          core::format_size(limits_.max_name) + " are accepted");
    }
    return Value::text(in_.text(token));
  }

  Value map(const MsgpackToken& token) {
    enter(token);
    Dict dict;
    for (std::uint64_t i = 0; i < token.size; ++i) {
      Value name = key();
      Value item = core::with_context(core::quote(step_text(name), 80), [&] { return value(in_.next()); });
      dict.items.emplace_back(std::move(name), std::move(item));
    }
    --depth_;
    require_distinct(dict);
    return dict.find(kChunked) != nullptr ? chunked(dict) : Value::dict(std::move(dict));
  }

  static void require_distinct(const Dict& dict) {
    std::vector<std::string_view> names;
    for (const auto& item : dict.items) {
      if (item.first.is(Value::Kind::text)) names.push_back(item.first.as_text());
    }
    std::sort(names.begin(), names.end());
    auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) corrupt("the key " + core::quote(*twice) + " is there twice");
  }

  Value extension(const MsgpackToken& token) {
    if (token.extension == kComplex) return complex(token);
    if (token.extension == kArray || token.extension == kScalar) return array(token);
    throw Error(ErrorCode::unsupported,
                "a value has the extension type " + std::to_string(token.extension) + ", which flax does not write");
  }

  Value complex(const MsgpackToken& token) const {
    MsgpackReader in(*file_, token.begin, token.begin + token.size);
    std::array<double, 2> parts{};
    MsgpackToken pair = in.next();
    bool good = pair.kind == Kind::array && pair.size == parts.size();
    for (double& part : parts) {
      if (!good) break;
      MsgpackToken number = in.next();
      good = number.kind == Kind::real || number.kind == Kind::integer;
      part = number.kind == Kind::real ? number.real : static_cast<double>(number.integer);
    }
    if (!good || in.remaining() > 0) corrupt("a complex number is no pair of numbers");
    return Value::complex(parts[0], parts[1]);
  }

  core::Shape shape(MsgpackReader& in) const {
    MsgpackToken token = in.next();
    if (token.kind != Kind::array) corrupt("an array has no shape");
    if (token.size > limits_.max_rank) {
      throw Error(ErrorCode::refused, "an array has more than " + std::to_string(limits_.max_rank) + " dimensions");
    }
    core::Shape out;
    for (std::uint64_t i = 0; i < token.size; ++i) {
      MsgpackToken size = in.next();
      if (size.kind != Kind::integer || size.integer < 0) corrupt("an array has a dimension that is no size");
      out.push_back(size.integer);
    }
    return out;
  }

  /// [shape, name of the type, values].
  Value array(const MsgpackToken& token) {
    if (++tensors_ > limits_.max_tensors) {
      throw Error(ErrorCode::refused, "the file has more than " + core::format_count(limits_.max_tensors) + " arrays");
    }
    MsgpackReader in(*file_, token.begin, token.begin + token.size);
    MsgpackToken three = in.next();
    if (three.kind != Kind::array || three.size != 3) corrupt("an array is not shape, type and values");
    auto entry = std::make_shared<Entry>();
    entry->shape = shape(in);
    MsgpackToken name = in.next();
    bool named = (name.kind == Kind::text || name.kind == Kind::bytes) && name.size <= kMaxTypeName;
    if (!named) corrupt("an array has no name of a type");
    entry->dtype = dtype_named(in.text(name));
    MsgpackToken values = in.next();
    if (values.kind != Kind::bytes || in.remaining() > 0) corrupt("an array has no values, or more than those");
    std::optional<std::uint64_t> count = core::try_numel(entry->shape.span());
    std::optional<std::uint64_t> needed = count ? core::byte_size(entry->dtype, *count) : std::nullopt;
    if (!needed || *needed != values.size) {
      corrupt("an array of shape " + core::to_list(entry->shape) + " and type " +
              std::string(core::name(entry->dtype)) + " has " + core::format_count(values.size) + " bytes of values");
    }
    entry->bytes = slice(file_, values.begin, values.size);
    return Value::tensor(std::move(entry));
  }

  /// {"0": ..., "1": ...}, which flax makes of a tuple.
  static const Value& numbered(const Value& tuple, std::size_t i) {
    const Value* found = tuple.find(std::to_string(i));
    if (found == nullptr) corrupt("an array in chunks lacks the part " + std::to_string(i));
    return *found;
  }

  /// A large array, cut into runs of its elements.
  Value chunked(const Dict& dict) const {
    const Value* sizes = dict.find("shape");
    const Value* chunks = dict.find("chunks");
    bool good = sizes != nullptr && chunks != nullptr && sizes->is(Value::Kind::dict) &&
                chunks->is(Value::Kind::dict) && !chunks->as_dict().items.empty();
    if (!good) corrupt("an array in chunks has no shape or no chunks");
    const std::size_t rank = sizes->as_dict().items.size();
    const std::size_t count = chunks->as_dict().items.size();
    if (rank > limits_.max_rank || count > kMaxHeaderFields) corrupt("an array in chunks has too many of them");
    auto entry = std::make_shared<Entry>();
    for (std::size_t i = 0; i < rank; ++i) {
      const Value& size = numbered(*sizes, i);
      if (!size.is(Value::Kind::integer)) corrupt("an array in chunks has a dimension that is no size");
      entry->shape.push_back(size.as_integer());
    }
    std::vector<SourcePtr> parts;
    for (std::size_t i = 0; i < count; ++i) {
      const Value& chunk = numbered(*chunks, i);
      if (!chunk.is(Value::Kind::tensor)) corrupt("a chunk of an array is none");
      if (i == 0) entry->dtype = chunk.as_entry().dtype;
      if (chunk.as_entry().dtype != entry->dtype) corrupt("the chunks of an array have different types");
      parts.push_back(chunk.as_entry().bytes);
    }
    entry->bytes = joined(std::move(parts));
    std::optional<std::uint64_t> elements = core::try_numel(entry->shape.span());
    if (!elements || core::byte_size(entry->dtype, *elements) != entry->bytes->size()) {
      corrupt("the chunks of an array of shape " + core::to_list(entry->shape) + " have " +
              core::format_count(entry->bytes->size()) + " bytes of values");
    }
    return Value::tensor(std::move(entry));
  }

  SourcePtr file_;
  MsgpackReader in_;
  const Limits& limits_;
  const Budget* budget_;
  std::uint64_t values_ = 0;
  std::uint64_t depth_ = 0;
  std::uint64_t tensors_ = 0;
};

}  // namespace

Value read_flax_tree(const SourcePtr& file, const Limits& limits, const Budget* budget) {
  return TreeReader(file, limits, budget).run();
}

}  // namespace ckpt::detail
