// The C interface: checkpoints made from memory.

#include <set>

#include "libckpt/c_api_internal.h"
#include "libcore/base/text.h"

struct ckpt_builder {
  ckpt::Dict dict;
  std::set<std::string> keys;
};

namespace {

using namespace ckpt::detail;
using core::Error;
using core::ErrorCode;

void add(ckpt_builder* builder, const char* key, ckpt::Value value) {
  ckpt_builder& into = require(builder, "builder");
  std::string name = &require(key, "key");
  if (!into.keys.insert(name).second) {
    throw Error(ErrorCode::collision, "the key " + core::quote(name) + " is there already");
  }
  into.dict.items.emplace_back(ckpt::Value::text(std::move(name)), std::move(value));
}

core::Shape parse_shape(std::size_t rank, const std::int64_t* shape) {
  constexpr std::size_t kMaxRank = 64;
  if (rank > kMaxRank) throw Error(ErrorCode::usage, "a tensor has at most 64 dimensions");
  if (rank > 0) require(shape, "shape");
  core::Shape out;
  for (std::size_t i = 0; i < rank; ++i) {
    if (shape[i] < 0) throw Error(ErrorCode::usage, "dimension " + std::to_string(i) + " is negative");
    out.push_back(shape[i]);
  }
  return out;
}

ckpt::Value make_tensor(core::DType dtype, core::Shape shape, const void* data, std::size_t size) {
  std::optional<std::uint64_t> numel = core::try_numel(shape.span());
  std::optional<std::uint64_t> bytes = numel ? core::byte_size(dtype, *numel) : std::nullopt;
  if (!bytes || *bytes != size) {
    throw Error(ErrorCode::usage, "a " + std::string(core::name(dtype)) + " tensor of shape " + core::to_list(shape) +
                                      " has " + (bytes ? std::to_string(*bytes) : "no whole number of") +
                                      " bytes, not " + std::to_string(size));
  }
  if (size > 0) require(static_cast<const std::byte*>(data), "data");
  const auto* begin = static_cast<const std::byte*>(data);
  auto entry = std::make_shared<ckpt::Entry>();
  entry->dtype = dtype;
  entry->shape = std::move(shape);
  entry->bytes = ckpt::memory_source(core::ByteVector(begin, begin + size));
  return ckpt::Value::tensor(std::move(entry));
}

}  // namespace

ckpt_builder* ckpt_builder_new(void) {
  return new (std::nothrow) ckpt_builder;
}

void ckpt_builder_free(ckpt_builder* builder) {
  delete builder;
}

ckpt_status ckpt_builder_add_tensor(ckpt_builder* builder, const char* key, const char* dtype, size_t rank,
                                    const int64_t* shape, const void* data, size_t size, ckpt_error** error) {
  return guarded(error, [&] {
    require(builder, "builder");
    core::with_context(&require(key, "key"), [&] {
      core::DType type = core::parse_dtype(&require(dtype, "dtype"));
      add(builder, key, make_tensor(type, parse_shape(rank, shape), data, size));
    });
  });
}

ckpt_status ckpt_builder_add_int(ckpt_builder* builder, const char* key, int64_t value, ckpt_error** error) {
  return guarded(error, [&] { add(builder, key, ckpt::Value::integer(value)); });
}

ckpt_status ckpt_builder_add_real(ckpt_builder* builder, const char* key, double value, ckpt_error** error) {
  return guarded(error, [&] { add(builder, key, ckpt::Value::real(value)); });
}

ckpt_status ckpt_builder_add_text(ckpt_builder* builder, const char* key, const char* text, ckpt_error** error) {
  return guarded(error, [&] { add(builder, key, ckpt::Value::text(&require(text, "text"))); });
}

ckpt_status ckpt_builder_finish(ckpt_builder* builder, ckpt_checkpoint** out, ckpt_error** error) {
  return guarded(error, [&] {
    ckpt_builder& from = require(builder, "builder");
    require(out, "out") = nullptr;
    ckpt::Checkpoint checkpoint;
    checkpoint.root = ckpt::Value::dict(std::move(from.dict));
    from = {};
    *out = make_handle(std::move(checkpoint), {});
  });
}
