#include "tools/python/bindings/values.h"

#include <nanobind/stl/string.h>

#include <cstring>
#include <limits>

#include "libckpt/checkpoint.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/python/bindings/tensor.h"

namespace nb = nanobind;

namespace python {
namespace {

using ckpt::Value;
using core::Error;
using core::ErrorCode;
using Kind = ckpt::Value::Kind;

constexpr int kMaxDepth = 1'000;  // Limits::max_depth, that readers have

/// Texts of a file keep the lone surrogates that Python allows.
nb::object text_to_python(const std::string& text) {
  PyObject* made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogatepass");
  if (made == nullptr) nb::raise_python_error();
  return nb::steal(made);
}

nb::bytes bytes_to_python(const core::ByteVector& bytes) {
  return nb::bytes(bytes.data(), bytes.size());
}

nb::object long_to_python(const core::ByteVector& bytes) {
  nb::object from = nb::borrow(reinterpret_cast<PyObject*>(&PyLong_Type)).attr("from_bytes");
  return from(bytes_to_python(bytes), "little", nb::arg("signed") = true);
}

nb::list list_to_python(const Value::List& items) {
  nb::list list;
  for (const Value& item : items) list.append(to_python(item));
  return list;
}

nb::object call_type(PyTypeObject& type, const nb::object& argument) {
  return nb::borrow(reinterpret_cast<PyObject*>(&type))(argument);
}

nb::object dict_to_python(const ckpt::Dict& dict) {
  const bool ordered = dict.type == "collections.OrderedDict";
  nb::object made = ordered ? nb::module_::import_("collections").attr("OrderedDict")() : nb::object(nb::dict());
  for (const auto& [key, value] : dict.items) made[to_python(key)] = to_python(value);
  if (!ordered || !dict.attributes.is(Kind::dict)) return made;
  for (const auto& [name, value] : dict.attributes.as_dict().items) {
    if (name.is(Kind::text)) nb::setattr(made, text_to_python(name.as_text()), to_python(value));
  }
  return made;
}

nb::object sequence_to_python(const Value& value) {
  nb::list list = list_to_python(value.as_list());
  switch (value.kind()) {
    case Kind::tuple:
      return nb::tuple(list);
    case Kind::set:
      return call_type(PySet_Type, list);
    case Kind::frozenset:
      return call_type(PyFrozenSet_Type, list);
    default:
      return list;
  }
}

/// A shape is a tuple in Python too; other objects stay what they are.
nb::object object_to_python(const Value& value) {
  const ckpt::Object& object = value.as_object();
  if (object.symbol == "torch.Size" && object.args.is(Kind::tuple) && object.args.as_list().size() == 1) {
    const Value& sizes = object.args.as_list().front();
    if (sizes.is_sequence()) return nb::tuple(list_to_python(sizes.as_list()));
  }
  return nb::cast(Object{value});
}

/// From Python: holds the place for messages.
class Reader {
 public:
  explicit Reader(const nb::object& leaf) : leaf_(leaf), ordered_(type_in_collections("OrderedDict")) {}

  Value read(nb::handle object) {
    if (path_.size() > kMaxDepth) throw Error(ErrorCode::value, "is nested deeper than 1,000, or holds itself");
    PyObject* raw = object.ptr();
    if (raw == Py_None) return {};
    if (PyBool_Check(raw)) return Value::boolean(raw == Py_True);
    if (PyLong_Check(raw)) return integer(object);
    if (PyFloat_Check(raw)) return Value::real(PyFloat_AS_DOUBLE(raw));
    if (PyComplex_Check(raw)) return Value::complex(PyComplex_RealAsDouble(raw), PyComplex_ImagAsDouble(raw));
    if (PyUnicode_Check(raw)) return Value::text(text(object));
    if (PyBytes_Check(raw)) return Value::bytes(bytes(PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw)));
    if (PyByteArray_Check(raw)) return Value::bytearray(bytes(PyByteArray_AS_STRING(raw), PyByteArray_GET_SIZE(raw)));
    if (PyDict_Check(raw)) return dict(nb::borrow<nb::dict>(object));
    if (PyList_Check(raw)) return Value::list(items(object));
    if (PyTuple_CheckExact(raw)) return Value::tuple(items(object));
    if (PyFrozenSet_Check(raw)) return Value::frozenset(items(object));
    if (PyAnySet_Check(raw)) return Value::set(items(object));
    if (nb::isinstance<Tensor>(object)) return Value::tensor(nb::cast<const Tensor&>(object).entry);
    if (nb::isinstance<Object>(object)) return nb::cast<const Object&>(object).value;
    return other(object);
  }

 private:
  static nb::object type_in_collections(const char* name) { return nb::module_::import_("collections").attr(name); }

  static core::ByteVector bytes(const char* data, Py_ssize_t size) {
    const auto* begin = reinterpret_cast<const std::byte*>(data);
    return core::ByteVector(begin, begin + size);
  }

  static std::string text(nb::handle object) {
    PyObject* encoded = PyUnicode_AsEncodedString(object.ptr(), "utf-8", "surrogatepass");
    if (encoded == nullptr) nb::raise_python_error();
    auto owner = nb::steal<nb::bytes>(encoded);
    return std::string(owner.c_str(), owner.size());
  }

  static Value integer(nb::handle object) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
    if (overflow == 0) return Value::integer(number);
    const auto bits = nb::cast<std::size_t>(object.attr("bit_length")());
    auto encoded = nb::cast<nb::bytes>(object.attr("to_bytes")(bits / 8 + 1, "little", nb::arg("signed") = true));
    return Value::big_integer(bytes(encoded.c_str(), static_cast<Py_ssize_t>(encoded.size())));
  }

  Value at(const std::string& step, nb::handle object) {
    path_.push_back(step);
    Value value = read(object);
    path_.pop_back();
    return value;
  }

  Value::List items(nb::handle object) {
    Value::List list;
    for (nb::handle item : object) list.push_back(at(std::to_string(list.size()), item));
    return list;
  }

  Value dict(const nb::dict& object) {
    ckpt::Dict made;
    if (nb::isinstance(object, ordered_)) made.type = "collections.OrderedDict";
    for (auto [key, value] : object) {
      Value name = at("", key);
      std::string step = ckpt::step_text(name);
      made.items.emplace_back(std::move(name), at(step, value));
    }
    if (nb::hasattr(object, "_metadata")) {
      made.attributes = Value::dict({{"_metadata", at("_metadata", object.attr("_metadata"))}});
    }
    return Value::dict(std::move(made));
  }

  Value other(nb::handle object) {
    nb::object known = leaf_(object);
    if (!known.is(nb::borrow(Py_NotImplemented))) return at("", known);
    const std::string type = nb::type_name(object.type()).c_str();
    const std::string place = core::join(path_, ".");
    throw Error(ErrorCode::type, (place.empty() ? "what is saved" : core::quote(place)) + " is of type " + type +
                                     ", which is neither a tensor nor plain data");
  }

  const nb::object& leaf_;
  nb::object ordered_;
  std::vector<std::string> path_;
};

Object object_of(const std::string& symbol, const nb::object& arguments, const nb::object& leaf) {
  ckpt::Object object;
  object.symbol = symbol;
  if (!arguments.is_none()) {
    object.form = ckpt::Object::Form::call;
    object.args = to_value(arguments, leaf);
  }
  return {Value::object(std::move(object))};
}

}  // namespace

nb::object to_python(const Value& value) {
  switch (value.kind()) {
    case Kind::null:
      return nb::none();
    case Kind::boolean:
      return nb::bool_(value.as_boolean());
    case Kind::integer:
      return nb::int_(value.as_integer());
    case Kind::big_integer:
      return long_to_python(value.as_bytes());
    case Kind::real:
      return nb::float_(value.as_real());
    case Kind::complex:
      return nb::steal(PyComplex_FromDoubles(value.as_complex().first, value.as_complex().second));
    case Kind::text:
      return text_to_python(value.as_text());
    case Kind::bytes:
      return bytes_to_python(value.as_bytes());
    case Kind::bytearray:
      return call_type(PyByteArray_Type, bytes_to_python(value.as_bytes()));
    case Kind::dict:
      return dict_to_python(value.as_dict());
    case Kind::tensor:
      return nb::cast(Tensor{"", value.entry_ptr()});
    case Kind::object:
      return object_to_python(value);
    default:
      return sequence_to_python(value);
  }
}

Value to_value(nb::handle object, const nb::object& leaf) {
  return Reader(leaf).read(object);
}

void bind_values(nb::module_& module) {
  nb::class_<Object>(module, "Object",
                     "Something that a file names and that is neither plain data nor a tensor: an "
                     "argparse.Namespace, a torch.dtype. It is carried along, and nothing of it is executed.")
      .def_prop_ro(
          "symbol", [](const Object& o) { return o.value.as_object().symbol; }, "'argparse.Namespace'")
      .def("__repr__", [](const Object& o) { return "Object(" + core::quote(o.value.as_object().symbol) + ")"; });
  module.def("_object", &object_of, nb::arg("symbol"), nb::arg("arguments").none(), nb::arg("leaf").none());
}

}  // namespace python
