#pragma once
// Files of a size that is asked for, each large in one way: keys, ties, metadata, chunks, shards, groups. What is large
// is what a reader keeps lists of. Thread safety: pure. Use: test::write_tied(folder, 10'000);

#include <cstddef>
#include <filesystem>

namespace test {

/// a.safetensors with that many entries of metadata, b.safetensors with other texts in the same.
void write_metadata(const std::filesystem::path& folder, std::size_t count);
/// a.pth with that many names of one tensor; b.pth with other values and other names.
void write_tied(const std::filesystem::path& folder, std::size_t count);
/// a.pth with that many windows into one storage, each of which overlaps its neighbours.
void write_windows(const std::filesystem::path& folder, std::size_t count);
/// a.pth with that many tensors behind "module.", b.pth with the same under other names, map.json from one to the
/// other, and c.pth with other values under the names of a.
void write_keys(const std::filesystem::path& folder, std::size_t count);
/// a.safetensors with that many tensors of layers that were not trained (three of four are ones or zeros),
/// b.safetensors with the same behind "module.", and c.safetensors with the same under other names.
void write_fresh_layers(const std::filesystem::path& folder, std::size_t count);
/// dcp/ with one tensor in that many chunks, each a column of it.
void write_chunks(const std::filesystem::path& folder, std::size_t count);
/// a.pth whose state dict knows the versions of that many modules, and map.json that renames its only key.
void write_modules(const std::filesystem::path& folder, std::size_t count);
/// a.pth and b.pth with that many state dicts and as many optimizers, of which all values differ.
void write_state_dicts(const std::filesystem::path& folder, std::size_t count);
/// a.pth with a model and an optimizer of that many parameters, each in a group of its own, fewer than the model has.
void write_optimizer(const std::filesystem::path& folder, std::size_t count);
/// model.safetensors.index.json and that many shards of one tensor.
void write_shards(const std::filesystem::path& folder, std::size_t count);
/// a.pth with that many records that no tensor uses.
void write_records(const std::filesystem::path& folder, std::size_t count);
/// a.pth with that many lists, each of which stands in two places.
void write_shared_values(const std::filesystem::path& folder, std::size_t count);

}  // namespace test
