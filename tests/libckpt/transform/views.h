#pragma once
// Entries that look into a shared storage, for tests of transforms.
// Use: auto storage = floats_storage(12); Value column = view(storage, {3}, {4}, 1);

#include <memory>

#include "tests/libckpt/transform/trees.h"

namespace test {

/// The floats 0, 1, 2, ...
inline std::shared_ptr<const ckpt::Storage> floats_storage(std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  ckpt::Storage storage;
  storage.dtype = core::DType::f32;
  storage.bytes = bytes_of(values);
  return std::make_shared<const ckpt::Storage>(std::move(storage));
}

inline ckpt::Value view(const std::shared_ptr<const ckpt::Storage>& storage, core::Shape shape, core::Shape strides,
                        std::int64_t offset = 0) {
  ckpt::Entry entry;
  entry.shape = std::move(shape);
  entry.view = ckpt::View{storage, offset, std::move(strides)};
  entry.bytes = ckpt::gather(*entry.view, entry.dtype, entry.shape);
  return ckpt::Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)));
}

/// Floats of a tensor, read through `bytes`.
inline std::vector<float> values_of(const ckpt::Entry& entry) {
  core::ByteVector raw = ckpt::read_all(*entry.bytes);
  std::vector<float> values(raw.size() / sizeof(float));
  std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

inline std::vector<float> values_at(const ckpt::Value& root, std::string_view name) {
  return values_of(ckpt::value_at(root, name).as_entry());
}

}  // namespace test
