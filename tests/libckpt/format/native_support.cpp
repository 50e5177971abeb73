#include "tests/libckpt/format/native_support.h"

#include <fstream>

#include "libckpt/format/native/layout.h"
#include "libcore/base/error.h"
#include "tests/support/temp_dir.h"

namespace test {

using ckpt::Value;
using core::DType;

core::ByteVector noise(std::size_t count, unsigned seed) {
  core::ByteVector bytes(count);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL;
  for (std::byte& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

std::shared_ptr<ckpt::Entry> entry(DType dtype, const core::Shape& shape, core::ByteVector bytes) {
  auto made = std::make_shared<ckpt::Entry>();
  made->dtype = dtype;
  made->shape = shape;
  made->bytes = ckpt::memory_source(std::move(bytes));
  return made;
}

Value tensor(DType dtype, const core::Shape& shape, unsigned seed) {
  return Value::tensor(entry(dtype, shape, noise(*core::byte_size(dtype, *core::try_numel(shape.span())), seed)));
}

std::shared_ptr<const ckpt::Storage> storage(DType dtype, core::ByteVector bytes, std::string location) {
  return std::make_shared<const ckpt::Storage>(
      ckpt::Storage{dtype, ckpt::memory_source(std::move(bytes)), std::move(location)});
}

Value view(const std::shared_ptr<const ckpt::Storage>& storage, DType dtype, const core::Shape& shape,
           std::int64_t offset, const core::Shape& strides) {
  auto made = std::make_shared<ckpt::Entry>();
  made->dtype = dtype;
  made->shape = shape;
  made->location = storage->location;
  made->view = ckpt::View{storage, offset, strides};
  made->bytes = gather(*made->view, dtype, shape);
  return Value::tensor(made);
}

Value dict(const Items& items) {
  ckpt::Dict made;
  for (const auto& [key, value] : items) made.items.emplace_back(Value::text(key), value);
  return Value::dict(std::move(made));
}

ckpt::Checkpoint checkpoint(const Items& items) {
  ckpt::Checkpoint made;
  made.root = dict(items);
  return made;
}

ckpt::Checkpoint small_checkpoint() {
  return checkpoint({{"fc.weight", tensor(DType::f32, {2, 3})}, {"fc.bias", tensor(DType::f32, {2}, 2)}});
}

namespace {

Value state_dict() {
  auto weight = entry(DType::f32, {4, 5}, noise(80, 3));
  weight->location = "cuda:0";
  weight->parameter = true;
  weight->requires_grad = true;
  auto wave = entry(DType::c64, {3}, noise(24, 4));
  wave->conjugate = true;
  wave->negative = true;
  auto custom = entry(DType::f16, {2}, noise(4, 5));
  custom->python_class = "mylib.MyTensor";
  custom->attributes = dict({{"tag", Value::text("x")}, {"grad", tensor(DType::f16, {2}, 6)}});
  auto meta = std::make_shared<ckpt::Entry>();
  meta->shape = {7, 7};
  meta->location = "meta";
  ckpt::Dict made;
  made.type = "collections.OrderedDict";
  made.items = {{Value::text("module.weight"), Value::tensor(weight)},
                {Value::text("module.wave"), Value::tensor(wave)},
                {Value::text("module.custom"), Value::tensor(custom)},
                {Value::text("module.meta"), Value::tensor(meta)},
                {Value::text("module.empty"), tensor(DType::f32, {0, 3})},
                {Value::text("module.scalar"), tensor(DType::f64, {}, 7)}};
  made.attributes = dict({{"_metadata", dict({{"", dict({{"version", Value::integer(1)}})}})}});
  return Value::dict(std::move(made));
}

Value optimizer() {
  ckpt::Dict state;
  state.items = {
      {Value::integer(0), dict({{"step", tensor(DType::f32, {}, 8)}, {"exp_avg", tensor(DType::f32, {4}, 9)}})},
      {Value::boolean(true), Value::list({Value::real(0.1), Value::real(-0.0)})},
      {Value::tuple({Value::integer(1), Value::text("k")}), Value()}};
  return dict({{"state", Value::dict(std::move(state))},
               {"param_groups", Value::list({dict({{"lr", Value::real(1e-3)},
                                                   {"betas", Value::tuple({Value::real(0.9), Value::real(0.999)})},
                                                   {"params", Value::list({Value::integer(0)})}})})}});
}

Value objects() {
  ckpt::Object dtype;
  dtype.symbol = "torch.float32";
  ckpt::Object size;
  size.symbol = "torch.Size";
  size.form = ckpt::Object::Form::call;
  size.args = Value::tuple({Value::list({Value::integer(2), Value::integer(3)})});
  ckpt::Object space;
  space.symbol = "argparse.Namespace";
  space.form = ckpt::Object::Form::instance;
  space.args = Value::tuple({});
  space.kwargs = dict({{"a", Value::integer(1)}});
  space.state = dict({{"lr", Value::real(0.5)}});
  space.has_state = true;
  space.appended = {Value::integer(4)};
  space.items = {{Value::text("k"), tensor(DType::i64, {2}, 10)}};
  return Value::list({Value::object(dtype), Value::object(size), Value::object(space)});
}

Value default_dict() {
  ckpt::Object list;
  list.symbol = "builtins.list";
  ckpt::Dict made;
  made.type = "collections.defaultdict";
  made.items = {{Value::text("a"), Value::list({})}};
  made.constructor_args = Value::tuple({Value::object(list)});
  return Value::dict(std::move(made));
}

std::string differ(const std::string& where, const std::string& what) {
  return where + ": " + what;
}

std::string list_difference(const Value::List& a, const Value::List& b, const std::string& where) {
  if (a.size() != b.size()) return differ(where, "another number of items");
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::string found = difference(a[i], b[i], where + "[" + std::to_string(i) + "]");
    if (!found.empty()) return found;
  }
  return "";
}

std::string items_difference(const std::vector<std::pair<Value, Value>>& a,
                             const std::vector<std::pair<Value, Value>>& b, const std::string& where) {
  if (a.size() != b.size()) return differ(where, "another number of items");
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::string inside = where + "." + ckpt::step_text(a[i].first);
    std::string found = difference(a[i].first, b[i].first, inside + " (key)");
    if (found.empty()) found = difference(a[i].second, b[i].second, inside);
    if (!found.empty()) return found;
  }
  return "";
}

std::string dict_difference(const ckpt::Dict& a, const ckpt::Dict& b, const std::string& where) {
  if (a.type != b.type) return differ(where, "is a " + a.type + " and a " + b.type);
  std::string found = items_difference(a.items, b.items, where);
  if (found.empty()) found = difference(a.attributes, b.attributes, where + " (attributes)");
  if (found.empty()) found = difference(a.constructor_args, b.constructor_args, where + " (arguments)");
  return found;
}

std::string object_difference(const ckpt::Object& a, const ckpt::Object& b, const std::string& where) {
  if (a.symbol != b.symbol || a.form != b.form || a.has_state != b.has_state) return differ(where, "another object");
  std::string found = difference(a.args, b.args, where + " (args)");
  if (found.empty()) found = difference(a.kwargs, b.kwargs, where + " (kwargs)");
  if (found.empty()) found = difference(a.state, b.state, where + " (state)");
  if (found.empty()) found = list_difference(a.appended, b.appended, where + " (appended)");
  if (found.empty()) found = items_difference(a.items, b.items, where + " (items)");
  return found;
}

std::string view_difference(const ckpt::View& a, const ckpt::View& b, const std::string& where) {
  if (a.offset != b.offset || !(a.strides == b.strides)) return differ(where, "another view");
  if (a.storage->dtype != b.storage->dtype) return differ(where, "another storage type");
  if (a.storage->location != b.storage->location) return differ(where, "another storage location");
  if (read_all(*a.storage->bytes) != read_all(*b.storage->bytes)) return differ(where, "other storage bytes");
  return "";
}

std::string entry_difference(const ckpt::Entry& a, const ckpt::Entry& b, const std::string& where) {
  if (a.dtype != b.dtype || !(a.shape == b.shape)) return differ(where, "another type or shape");
  if (a.location != b.location) return differ(where, "lies on " + a.location + " and on " + b.location);
  if (a.parameter != b.parameter || a.requires_grad != b.requires_grad) return differ(where, "other autograd flags");
  if (a.conjugate != b.conjugate || a.negative != b.negative) return differ(where, "other lazy flags");
  if (a.python_class != b.python_class) return differ(where, "another class");
  if ((a.bytes == nullptr) != (b.bytes == nullptr)) return differ(where, "bytes on one side only");
  if (a.bytes && read_all(*a.bytes) != read_all(*b.bytes)) return differ(where, "other bytes");
  if (a.view.has_value() != b.view.has_value()) return differ(where, "a view on one side only");
  std::string found = a.view ? view_difference(*a.view, *b.view, where) : "";
  if (found.empty()) found = difference(a.attributes, b.attributes, where + " (attributes)");
  return found;
}

}  // namespace

ckpt::Checkpoint sample_checkpoint() {
  Value shared = Value::list({Value::text("shared")});
  ckpt::Checkpoint made = checkpoint({{"epoch", Value::integer(-3)},
                                      {"model", state_dict()},
                                      {"optimizer", optimizer()},
                                      {"objects", objects()},
                                      {"groups", default_dict()},
                                      {"big", Value::big_integer(noise(11, 11))},
                                      {"wave", Value::complex(1.5, -2.5)},
                                      {"raw", Value::bytes(noise(3, 12))},
                                      {"array", Value::bytearray(noise(4, 13))},
                                      {"set", Value::set({Value::integer(1)})},
                                      {"frozen", Value::frozenset({Value::text("\xed\xa0\x80")})},
                                      {"no", Value::boolean(false)},
                                      {"nothing", Value()},
                                      {"once", shared},
                                      {"again", shared}});
  made.metadata = {{"format", "pt"}, {"empty", ""}};
  return made;
}

std::string difference(const Value& a, const Value& b, const std::string& where) {
  if (a.kind() != b.kind()) return differ(where, "another kind of value");
  if (a.is_sequence()) return list_difference(a.as_list(), b.as_list(), where);
  switch (a.kind()) {
    case Value::Kind::dict:
      return dict_difference(a.as_dict(), b.as_dict(), where);
    case Value::Kind::object:
      return object_difference(a.as_object(), b.as_object(), where);
    case Value::Kind::tensor:
      return entry_difference(a.as_entry(), b.as_entry(), where);
    default:
      return a == b ? "" : differ(where, "another value");
  }
}

void overwrite(const std::filesystem::path& file, std::uint64_t offset, std::string_view bytes) {
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(static_cast<std::streamoff>(offset));
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void edit_index(const std::filesystem::path& file, const std::function<void(core::ByteVector&)>& change) {
  std::string content = read_file(file);
  core::Bytes all = core::as_bytes(content);
  ckpt::detail::NativeHeader header = ckpt::detail::parse_header(all.first(ckpt::detail::kHeaderBytes));
  core::Bytes old = all.subspan(ckpt::detail::kHeaderBytes, header.index_size);
  core::ByteVector index(old.begin(), old.end());
  change(index);
  header.index_size = index.size();
  header.index_hash = ckpt::hash128(index);
  core::ByteVector head = ckpt::detail::encode_header(header);
  core::append(head, index);
  overwrite(file, 0, core::as_text(head));
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    constexpr std::pair<core::ErrorCode, const char*> kNames[] = {
        {core::ErrorCode::corrupt, "corrupt: "},
        {core::ErrorCode::refused, "refused: "},
        {core::ErrorCode::unsupported, "unsupported: "},
        {core::ErrorCode::io, "io: "},
        {core::ErrorCode::value, "value: "},
    };
    for (const auto& [code, name] : kNames) {
      if (error.code() == code) return name + error.message();
    }
    return "another code: " + error.message();
  }
  return "";
}

}  // namespace test
