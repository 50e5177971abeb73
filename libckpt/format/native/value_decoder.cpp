#include <algorithm>

#include "libckpt/format/native/value_codec.h"
#include "libckpt/format/native/value_tags.h"
#include "libckpt/io/large_pages.h"
#include "libckpt/io/object_arena.h"
#include "libckpt/io/packed.h"
#include "libcore/base/checked_math.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using Items = std::vector<std::pair<Value, Value>>;

constexpr std::uint64_t kBytesOfTensor = 48;  ///< that one with its name takes in the tree, about

[[noreturn]] void throw_damaged_tree(const std::string& what) {
  throw Error(ErrorCode::corrupt, "the tree of the index is damaged: " + what);
}

class Decoder {
 public:
  Decoder(core::Bytes bytes, const EntryCompleter& complete, const Limits& limits, const ItemTaker& take_item)
      : in_(bytes, "the tree of the index"),
        complete_(complete),
        limits_(limits),
        take_item_(take_item),
        entries_(bytes.size() / kBytesOfTensor * (sizeof(Entry) + 32)) {}

  Value run() {
    Value root = take();
    if (!in_.at_end()) throw_damaged_tree(std::to_string(in_.remaining()) + " bytes are left after it");
    return root;
  }

 private:
  /// A value that later places refer to, and how many values it stands for when every reference is followed.
  struct Shared {
    Value value;
    std::uint64_t weight = 0;
  };

  Value take() {
    if (depth_ >= limits_.max_depth) {
      throw Error(ErrorCode::refused,
                  "the tree is nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    }
    ++depth_;
    Value value = take_tagged(in_.take<std::uint8_t>());
    --depth_;
    return value;
  }

  /// References can make a small file stand for an endless tree; the sum over all places is bounded.
  void add_weight(std::uint64_t weight) {
    weight_ = core::checked_add(weight_, weight);
    if (weight_ > limits_.max_pickle_opcodes) {
      throw Error(ErrorCode::refused, "the tree stands for more than " +
                                          core::format_count(limits_.max_pickle_opcodes) +
                                          " values when its references are followed");
    }
  }

  Value take_tagged(std::uint8_t tag) {
    if (tag == kTagAgain) {
      std::uint64_t number = take_count(in_);
      if (number >= shared_.size()) throw_damaged_tree("a reference points at nothing");
      add_weight(shared_[number].weight);
      return shared_[number].value;
    }
    if (tag == kTagShared) {
      std::uint64_t before = weight_;
      Value value = take();
      shared_.push_back({value, weight_ - before});
      return value;
    }
    add_weight(1);
    return take_plain(tag);
  }

  Value take_plain(std::uint8_t tag) {
    switch (tag) {
      case kTagNull:
        return {};
      case kTagFalse:
      case kTagTrue:
        return Value::boolean(tag == kTagTrue);
      case kTagInteger:
        return Value::integer(in_.take<std::int64_t>());
      case kTagBigInteger:
        return Value::big_integer(take_bytes());
      case kTagReal:
        return Value::real(in_.take<double>());
      case kTagComplex: {
        auto re = in_.take<double>();
        return Value::complex(re, in_.take<double>());
      }
      case kTagText:
        return Value::text(take_string(in_));
      case kTagBytes:
        return Value::bytes(take_bytes());
      case kTagBytearray:
        return Value::bytearray(take_bytes());
      case kTagList:
        return Value::list(take_values());
      case kTagTuple:
        return Value::tuple(take_values());
      case kTagSet:
        return Value::set(take_values());
      case kTagFrozenset:
        return Value::frozenset(take_values());
      case kTagDict:
        return take_dict();
      case kTagTensor:
        return take_entry();
      case kTagObject:
        return take_object();
      default:
        throw Error(ErrorCode::unsupported,
                    "the tree holds a value of kind " + std::to_string(tag) + "; use a newer version");
    }
  }

  core::ByteVector take_bytes() {
    core::Bytes run = take_run(in_);
    return {run.begin(), run.end()};
  }

  Value::List take_values() {
    std::uint64_t count = take_length(in_);
    Value::List items;
    while (count-- > 0) items.push_back(take());
    return items;
  }

  Items take_items() {
    std::uint64_t count = take_length(in_);
    Items items;
    // A tensor with its name takes more than 16 bytes. What is nested has grown before it could claim much.
    if (depth_ <= 2) {
      items.reserve(std::min<std::uint64_t>(count, in_.remaining() / 16));
      prefer_large_pages(items.data(), items.capacity() * sizeof(Items::value_type));
    }
    while (count-- > 0) {
      Value key = take();
      items.emplace_back(std::move(key), take());
      require_name(items.back());
    }
    return items;
  }

  /// Those that nobody else takes.
  Items take_other_items() {
    std::uint64_t count = take_length(in_);
    Items items;
    while (count-- > 0) {
      if (take_item_(in_)) {
        add_weight(2);
        continue;
      }
      Value key = take();
      items.emplace_back(std::move(key), take());
    }
    return items;
  }

  void require_name(const std::pair<Value, Value>& item) const {
    if (!item.first.is(Value::Kind::text) || !item.second.is(Value::Kind::tensor)) return;
    if (item.first.as_text().size() <= limits_.max_name) return;
    throw Error(ErrorCode::refused, "a tensor has a name of " + std::to_string(item.first.as_text().size()) +
                                        " bytes; the limit is " + std::to_string(limits_.max_name));
  }

  Value take_dict() {
    Dict dict;
    auto type = in_.take<std::uint8_t>();
    if (type < kDictTypes.size()) {
      dict.type = kDictTypes[type];
    } else if (type == kNamedDictType) {
      dict.type = take_string(in_);
    } else {
      throw_damaged_tree("there is no dict type " + std::to_string(type));
    }
    auto flags = in_.take<std::uint8_t>();
    if ((flags & ~(kDictAttributes | kDictArgs)) != 0) throw_damaged_tree("a dict has unknown flags");
    const bool leaves_items = take_item_ && depth_ == 1 && limits_.max_depth > 1;
    dict.items = leaves_items ? take_other_items() : take_items();
    if ((flags & kDictAttributes) != 0) dict.attributes = take();
    if ((flags & kDictArgs) != 0) dict.constructor_args = take();
    return Value::dict(std::move(dict));
  }

  Value take_object() {
    Object object;
    object.symbol = take_string(in_);
    auto form = in_.take<std::uint8_t>();
    if (form > static_cast<std::uint8_t>(Object::Form::instance)) throw_damaged_tree("an object has an unknown form");
    object.form = static_cast<Object::Form>(form);
    auto flags = in_.take<std::uint8_t>();
    if ((flags & ~(kObjectArgs | kObjectKwargs | kObjectState)) != 0) throw_damaged_tree("an object has unknown flags");
    if ((flags & kObjectArgs) != 0) object.args = take();
    if ((flags & kObjectKwargs) != 0) object.kwargs = take();
    object.has_state = (flags & kObjectState) != 0;
    if (object.has_state) object.state = take();
    object.appended = take_values();
    object.items = take_items();
    return Value::object(std::move(object));
  }

  core::Shape take_shape(std::size_t rank) {
    core::Shape shape(rank, 0);
    for (std::int64_t& size : shape) {
      std::uint64_t value = take_count(in_);
      if (value > INT64_MAX) throw_damaged_tree("a dimension does not fit 63 bits");
      size = static_cast<std::int64_t>(value);
    }
    return shape;
  }

  std::uint64_t take_number(std::uint64_t limit) {
    std::uint64_t value = take_count(in_);
    if (value > limit) throw_damaged_tree("a number is out of range: " + std::to_string(value));
    return value;
  }

  core::DType take_dtype() {
    auto code = in_.take<std::uint8_t>();
    if (auto dtype = dtype_of_code(code)) return *dtype;
    throw Error(ErrorCode::unsupported,
                "a tensor has dtype number " + std::to_string(code) + ", which this version does not know");
  }

  void require_limits(std::size_t rank) {
    if (++tensors_ > limits_.max_tensors) {
      throw Error(ErrorCode::refused, "the file holds more than " + core::format_count(limits_.max_tensors) +
                                          " tensors, which is the limit");
    }
    if (rank > limits_.max_rank) {
      throw Error(ErrorCode::refused, "a tensor has " + std::to_string(rank) + " dimensions; the limit is " +
                                          std::to_string(limits_.max_rank));
    }
  }

  EntryRecord take_record(std::uint8_t flags, std::size_t rank) {
    EntryRecord record;
    if ((flags & kEntryWindow) != 0) {
      auto payload = static_cast<std::uint32_t>(take_number(UINT32_MAX));
      record.window = Window{payload, take_count(in_)};
    }
    if ((flags & kEntryView) != 0) {
      auto storage = static_cast<std::uint32_t>(take_number(UINT32_MAX));
      auto offset = static_cast<std::int64_t>(take_number(INT64_MAX));
      record.view = ViewRecord{storage, offset, take_shape(rank)};
    }
    return record;
  }

  Value take_entry() {
    std::shared_ptr<Entry> entry = entries_.make<Entry>();
    auto flags = in_.take<std::uint8_t>();
    entry->parameter = (flags & kEntryParameter) != 0;
    entry->requires_grad = (flags & kEntryRequiresGrad) != 0;
    entry->conjugate = (flags & kEntryConjugate) != 0;
    entry->negative = (flags & kEntryNegative) != 0;
    entry->dtype = take_dtype();
    std::size_t rank = in_.take<std::uint8_t>();
    require_limits(rank);
    entry->shape = take_shape(rank);
    entry->location = take_string(in_);
    EntryRecord record = take_record(flags, rank);
    if ((flags & kEntryClass) != 0) entry->python_class = take_string(in_);
    if ((flags & kEntryAttributes) != 0) entry->attributes = take();
    complete_(record, *entry);
    return Value::tensor(std::move(entry));
  }

  ByteCursor in_;
  const EntryCompleter& complete_;
  const Limits& limits_;
  const ItemTaker& take_item_;
  ObjectArena entries_;
  std::vector<Shared> shared_;
  std::uint64_t depth_ = 0;
  std::uint64_t weight_ = 0;
  std::uint64_t tensors_ = 0;
};

}  // namespace

Value decode_tree(core::Bytes bytes, const EntryCompleter& complete, const Limits& limits, const ItemTaker& take_item) {
  return Decoder(bytes, complete, limits, take_item).run();
}

}  // namespace ckpt::detail
