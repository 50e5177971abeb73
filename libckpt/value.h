#pragma once
// Value: one node of a checkpoint's tree. A training file is a tree of dicts, lists and plain values with tensors as
// leaves; Value keeps every distinction that Python's pickle makes (list and tuple, 1 and True, int and text keys), so
// that a file goes through unchanged.
// Throws for memory, and Error(type) where a value is read as what it is not.
// Thread safety: immutable once built; copies share their nodes and cost two words and a counter.
// Use: ckpt::Value extra = ckpt::Value::dict({{"lr", 0.1}, {"classes", ckpt::Value::list({"cat", "dog"})}});

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcore/base/bytes.h"

namespace ckpt {

struct Entry;  // entry.h
struct Dict;
struct Object;

class Value {
 public:
  enum class Kind : std::uint8_t {
    null,
    boolean,
    integer,
    big_integer,
    real,
    complex,
    text,
    bytes,
    bytearray,
    list,
    tuple,
    set,
    frozenset,
    dict,
    tensor,
    object,
  };
  using List = std::vector<Value>;

  Value() = default;  ///< null
  // Plain values as they are written: Value(true), Value(3), Value(0.5), Value("adam").
  // NOLINTBEGIN(google-explicit-constructor)
  template <std::same_as<bool> T>
  Value(T value) : Value(boolean(value)) {}
  template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, char>) Value(T value)
      : Value(std::in_range<std::int64_t>(value) ? integer(static_cast<std::int64_t>(value)) : past_64_bits(value)) {}
  template <std::floating_point T>
  Value(T value) : Value(real(static_cast<double>(value))) {}
  Value(const char* value) : Value(text(value)) {}
  Value(std::string value) : Value(text(std::move(value))) {}
  Value(std::string_view value) : Value(text(std::string(value))) {}
  Value(std::nullptr_t) = delete;
  // NOLINTEND(google-explicit-constructor)

  static Value boolean(bool value);
  static Value integer(std::int64_t value);
  /// An integer past 64 bits: two's complement, little-endian, shortest form.
  static Value big_integer(core::ByteVector twos_complement);
  static Value real(double value);
  static Value complex(double re, double im);
  /// UTF-8; lone surrogates of Python text are kept in their three-byte form.
  static Value text(std::string value);
  static Value bytes(core::ByteVector value);
  static Value bytearray(core::ByteVector value);
  static Value list(List items);
  static Value tuple(List items);
  static Value set(List items);
  static Value frozenset(List items);
  static Value dict(Dict dict);
  /// Of type "dict".
  static Value dict(std::initializer_list<std::pair<Value, Value>> items);
  static Value tensor(std::shared_ptr<const Entry> entry);
  static Value object(Object object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_null() const { return kind_ == Kind::null; }
  /// list, tuple, set or frozenset.
  bool is_sequence() const { return kind_ >= Kind::list && kind_ <= Kind::frozenset; }

  // Errors of all of these: Error(type) "the value is a list and was read as a str".
  bool as_boolean() const;
  std::int64_t as_integer() const;
  double as_real() const;
  std::pair<double, double> as_complex() const;
  const std::string& as_text() const;
  /// bytes, bytearray or big_integer.
  const core::ByteVector& as_bytes() const;
  /// list, tuple, set or frozenset.
  const List& as_list() const;
  const Dict& as_dict() const;
  const Entry& as_entry() const;
  std::shared_ptr<const Entry> entry_ptr() const;
  const Object& as_object() const;

  /// The value under a text key when this is a dict that has it, else null pointer. Cost: linear in the dict.
  const Value* find(std::string_view key) const;
  /// Address that copies of one node share; null for values that live in the Value itself. Two parents that hold the
  /// same identity held one object in Python.
  const void* identity() const { return node_.get(); }

  /// Same kind, same content, deep; tensors are equal when they are the same Entry object.
  friend bool operator==(const Value& a, const Value& b);

 private:
  Value(Kind kind, std::shared_ptr<const void> node) : kind_(kind), node_(std::move(node)) {}
  static Value past_64_bits(std::uint64_t value);
  void require(Kind wanted) const;
  Kind kind_ = Kind::null;
  union {
    bool boolean_;
    std::int64_t integer_ = 0;
    double real_;
  };
  std::shared_ptr<const void> node_;
};

/// A Python dict or one of its kin, in insertion order. Keys may be any hashable Value.
struct Dict {
  std::string type = "dict";  ///< "dict", "collections.OrderedDict", "collections.Counter", "collections.defaultdict"
  std::vector<std::pair<Value, Value>> items;
  Value attributes;        ///< null, or a dict of instance attributes: {'_metadata': OrderedDict} of a state dict
  Value constructor_args;  ///< null, or a tuple: (default_factory,) of a defaultdict

  const Value* find(std::string_view key) const;
};

/// Something that a checkpoint names but that is neither plain data nor a tensor: torch.Size, a dtype, a numpy scalar,
/// an argparse.Namespace. It is carried as the symbol and the data around it and never looked up or called.
struct Object {
  enum class Form : std::uint8_t {
    global,    ///< the symbol itself: torch.float32
    call,      ///< symbol(*args): torch.Size([2, 3])
    instance,  ///< symbol.__new__(symbol, *args)
  };
  std::string symbol;  ///< "module.name" as the file says it, Python 2 names normalised: "torch.Size"
  Form form = Form::global;
  Value args;    ///< tuple, or null for global
  Value kwargs;  ///< dict, or null
  Value state;   ///< what BUILD was given, or null
  bool has_state = false;
  Value::List appended;                        ///< items added to a list-like object
  std::vector<std::pair<Value, Value>> items;  ///< items added to a dict-like object
};

}  // namespace ckpt
