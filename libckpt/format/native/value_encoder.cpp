#include <algorithm>
#include <unordered_map>

#include "libckpt/format/native/value_codec.h"
#include "libckpt/format/native/value_tags.h"
#include "libckpt/io/packed.h"
#include "libcore/base/text.h"

namespace ckpt::detail {
namespace {

using core::Error;
using core::ErrorCode;
using EncodedItems = std::vector<std::pair<Value, Value>>;

template <class Visit>
void for_each_child(const Value& value, const Visit& visit) {
  auto visit_items = [&](const EncodedItems& items) {
    for (const auto& [key, child] : items) visit(key), visit(child);
  };
  if (value.is_sequence()) {
    for (const Value& item : value.as_list()) visit(item);
  } else if (value.is(Value::Kind::dict)) {
    visit_items(value.as_dict().items);
    visit(value.as_dict().attributes);
    visit(value.as_dict().constructor_args);
  } else if (value.is(Value::Kind::tensor)) {
    visit(value.as_entry().attributes);
  } else if (value.is(Value::Kind::object)) {
    const Object& object = value.as_object();
    for (const Value* part : {&object.args, &object.kwargs, &object.state}) visit(*part);
    for (const Value& item : object.appended) visit(item);
    visit_items(object.items);
  }
}

class Encoder {
 public:
  Encoder(const RecordLookup& lookup, std::uint64_t max_depth) : lookup_(lookup), max_depth_(max_depth) {}

  core::ByteVector run(const Value& root) {
    count(root, 0);
    put(root);
    return std::move(out_);
  }

 private:
  struct Sharing {
    bool again = false;
    std::uint64_t number = UINT64_MAX;  ///< once written
  };

  /// Finds out which nodes are met more than once.
  void count(const Value& value, std::uint64_t depth) {
    if (depth > max_depth_) {
      throw Error(ErrorCode::unsupported,
                  "the checkpoint is nested deeper than " + std::to_string(max_depth_) + " levels");
    }
    if (value.identity() != nullptr) {
      auto [at, first] = sharing_.try_emplace(value.identity());
      if (!first) {
        at->second.again = true;
        return;
      }
    }
    for_each_child(value, [&](const Value& child) { count(child, depth + 1); });
  }

  void put_tag(std::uint8_t tag) { out_.push_back(static_cast<std::byte>(tag)); }

  void put(const Value& value) {
    Sharing* sharing = value.identity() == nullptr ? nullptr : &sharing_.at(value.identity());
    if (sharing == nullptr || !sharing->again) return put_plain(value);
    if (sharing->number != UINT64_MAX) {
      put_tag(kTagAgain);
      return put_count(out_, sharing->number);
    }
    put_tag(kTagShared);
    put_plain(value);
    sharing->number = next_number_++;  // behind its parts: a reader numbers values as they are complete
  }

  void put_plain(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::null:
        return put_tag(kTagNull);
      case Value::Kind::boolean:
        return put_tag(value.as_boolean() ? kTagTrue : kTagFalse);
      case Value::Kind::integer:
        put_tag(kTagInteger);
        return core::append_le(out_, value.as_integer());
      case Value::Kind::real:
        put_tag(kTagReal);
        return core::append_le(out_, value.as_real());
      case Value::Kind::complex:
        put_tag(kTagComplex);
        core::append_le(out_, value.as_complex().first);
        return core::append_le(out_, value.as_complex().second);
      case Value::Kind::text:
        put_tag(kTagText);
        return put_text(out_, value.as_text());
      case Value::Kind::big_integer:
        return put_raw(kTagBigInteger, value);
      case Value::Kind::bytes:
        return put_raw(kTagBytes, value);
      case Value::Kind::bytearray:
        return put_raw(kTagBytearray, value);
      case Value::Kind::list:
        return put_list(kTagList, value.as_list());
      case Value::Kind::tuple:
        return put_list(kTagTuple, value.as_list());
      case Value::Kind::set:
        return put_list(kTagSet, value.as_list());
      case Value::Kind::frozenset:
        return put_list(kTagFrozenset, value.as_list());
      case Value::Kind::dict:
        return put_dict(value.as_dict());
      case Value::Kind::tensor:
        return put_entry(value.as_entry());
      case Value::Kind::object:
        return put_object(value.as_object());
    }
  }

  void put_raw(ValueTag tag, const Value& value) {
    put_tag(tag);
    put_bytes(out_, value.as_bytes());
  }

  void put_list(ValueTag tag, const Value::List& items) {
    put_tag(tag);
    put_values(items);
  }

  void put_values(const Value::List& items) {
    put_count(out_, items.size());
    for (const Value& item : items) put(item);
  }

  void put_items(const EncodedItems& items) {
    put_count(out_, items.size());
    for (const auto& [key, value] : items) {
      put(key);
      put(value);
    }
  }

  void put_dict(const Dict& dict) {
    put_tag(kTagDict);
    const auto* known = std::find(kDictTypes.begin(), kDictTypes.end(), dict.type);
    bool named = known == kDictTypes.end();
    put_tag(named ? kNamedDictType : static_cast<std::uint8_t>(known - kDictTypes.begin()));
    if (named) put_text(out_, dict.type);
    put_tag(static_cast<std::uint8_t>((dict.attributes.is_null() ? 0 : kDictAttributes) |
                                      (dict.constructor_args.is_null() ? 0 : kDictArgs)));
    put_items(dict.items);
    if (!dict.attributes.is_null()) put(dict.attributes);
    if (!dict.constructor_args.is_null()) put(dict.constructor_args);
  }

  void put_object(const Object& object) {
    put_tag(kTagObject);
    put_text(out_, object.symbol);
    put_tag(static_cast<std::uint8_t>(object.form));
    put_tag(static_cast<std::uint8_t>((object.args.is_null() ? 0 : kObjectArgs) |
                                      (object.kwargs.is_null() ? 0 : kObjectKwargs) |
                                      (object.has_state ? kObjectState : 0)));
    if (!object.args.is_null()) put(object.args);
    if (!object.kwargs.is_null()) put(object.kwargs);
    if (object.has_state) put(object.state);
    put_values(object.appended);
    put_items(object.items);
  }

  static std::uint8_t flags_of(const Entry& entry, const EntryRecord& record) {
    return static_cast<std::uint8_t>(
        (entry.parameter ? kEntryParameter : 0) | (entry.requires_grad ? kEntryRequiresGrad : 0) |
        (entry.conjugate ? kEntryConjugate : 0) | (entry.negative ? kEntryNegative : 0) |
        (record.window ? kEntryWindow : 0) | (record.view ? kEntryView : 0) |
        (entry.python_class.empty() ? 0 : kEntryClass) | (entry.attributes.is_null() ? 0 : kEntryAttributes));
  }

  void put_entry(const Entry& entry) {
    const EntryRecord& record = lookup_(entry);
    put_tag(kTagTensor);
    put_tag(flags_of(entry, record));
    put_tag(dtype_code(entry.dtype));
    put_tag(static_cast<std::uint8_t>(entry.shape.size()));
    for (std::int64_t size : entry.shape) put_count(out_, static_cast<std::uint64_t>(size));
    put_text(out_, entry.location);
    if (record.window) {
      put_count(out_, record.window->payload);
      put_count(out_, record.window->offset);
    }
    if (record.view) {
      put_count(out_, record.view->storage);
      put_count(out_, static_cast<std::uint64_t>(record.view->offset));
      for (std::int64_t stride : record.view->strides) put_count(out_, static_cast<std::uint64_t>(stride));
    }
    if (!entry.python_class.empty()) put_text(out_, entry.python_class);
    if (!entry.attributes.is_null()) put(entry.attributes);
  }

  const RecordLookup& lookup_;
  std::uint64_t max_depth_;
  std::unordered_map<const void*, Sharing> sharing_;
  std::uint64_t next_number_ = 0;
  core::ByteVector out_;
};

}  // namespace

core::ByteVector encode_tree(const Value& root, const RecordLookup& lookup, std::uint64_t max_depth) {
  return Encoder(lookup, max_depth).run(root);
}

}  // namespace ckpt::detail
