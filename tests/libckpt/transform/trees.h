#pragma once
// Small checkpoints in memory for tests of transforms and analyses.
// Use: Value model = state_dict({"module.fc.weight", "module.fc.bias"});

#include <string>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"

namespace test {

inline ckpt::SourcePtr bytes_of(const std::vector<float>& values) {
  core::ByteVector raw(values.size() * sizeof(float));
  if (!raw.empty()) std::memcpy(raw.data(), values.data(), raw.size());
  return ckpt::memory_source(std::move(raw));
}

inline ckpt::Entry float_entry(const std::vector<float>& values, std::string location = "cpu") {
  ckpt::Entry entry;
  entry.shape = core::Shape{static_cast<std::int64_t>(values.size())};
  entry.bytes = bytes_of(values);
  entry.location = std::move(location);
  return entry;
}

inline ckpt::Value tensor(const std::vector<float>& values, std::string location = "cpu") {
  return ckpt::Value::tensor(std::make_shared<ckpt::Entry>(float_entry(values, std::move(location))));
}

inline ckpt::Value dict(std::vector<std::pair<std::string, ckpt::Value>> items) {
  ckpt::Dict out;
  for (auto& [key, value] : items) out.items.emplace_back(ckpt::Value::text(key), std::move(value));
  return ckpt::Value::dict(std::move(out));
}

/// One tensor a key, all different; with versions of 1 for the given module paths.
inline ckpt::Value state_dict(const std::vector<std::string>& keys, const std::vector<std::string>& modules = {}) {
  ckpt::Dict out;
  out.type = "collections.OrderedDict";
  for (const std::string& key : keys) {
    out.items.emplace_back(ckpt::Value::text(key), tensor({static_cast<float>(out.items.size())}));
  }
  std::vector<std::pair<std::string, ckpt::Value>> versions;
  for (const std::string& module : modules) {
    versions.emplace_back(module, dict({{"version", ckpt::Value::integer(1)}}));
  }
  if (!modules.empty()) out.attributes = dict({{"_metadata", dict(std::move(versions))}});
  return ckpt::Value::dict(std::move(out));
}

inline ckpt::Checkpoint checkpoint(ckpt::Value root) {
  ckpt::Checkpoint out;
  out.root = std::move(root);
  return out;
}

/// Dotted names of all tensors, in order.
inline std::vector<std::string> names(const ckpt::Checkpoint& checkpoint) {
  std::vector<std::string> out;
  for (const ckpt::NamedEntry& entry : ckpt::list_entries(checkpoint.root)) out.push_back(entry.name);
  return out;
}

/// Module paths of the versions of a state dict, in order.
inline std::vector<std::string> modules(const ckpt::Value& state_dict) {
  std::vector<std::string> out;
  for (const auto& [path, version] : ckpt::module_versions(state_dict.as_dict())) out.push_back(path);
  return out;
}

}  // namespace test
