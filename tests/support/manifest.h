#pragma once
// Manifests of the golden checkpoint files: what the real library says is in a file and what a safe reader must do.
// Thread safety: plain values. Use: for (const test::Manifest& m : test::load_manifests("safetensors")) ...

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace test {

struct ManifestTensor {
  std::vector<std::string> path;  ///< steps; those that are no text as their JSON: {"int":3}, {"index":0}
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> stride;  ///< empty when contiguous
  std::int64_t storage_offset = 0;
  std::string kind;  ///< "" for a plain tensor
  std::string location;
  std::string tied;  ///< group, "" for none
  std::string python_class;
  std::uint64_t nbytes = 0;
  std::string sha256;  ///< of the contiguous logical bytes; "" when there are none
  bool parameter = false;
  bool requires_grad = false;
  bool conj = false;
  bool neg = false;
};

struct Manifest {
  std::filesystem::path json;  ///< the manifest itself, for tests that need more of it
  std::filesystem::path file;  ///< what to hand to a reader
  std::string id;              ///< "broken/st_hole.safetensors"
  std::string format;
  std::string action;  ///< "load", "refuse", "load-or-report", ...
  std::string reason;
  std::string same_as;  ///< id of the file whose content this one has, "" for none
  std::string group;    ///< files of one group hold the same weights, "" for none
  std::vector<std::string> warn;
  std::vector<std::string> globals;
  std::optional<int> verify_exit;
  bool has_tensors = false;  ///< false: the manifest does not list tensors
  std::vector<ManifestTensor> tensors;
};

/// All manifests of one folder below the golden "checkpoints", by name; empty when the folder is absent.
std::vector<Manifest> load_manifests(const std::string& folder);
/// Tensors of a pickled module that a reader may get out of it; empty for other files.
std::vector<ManifestTensor> load_recoverable(const Manifest& manifest);
/// By id, as `same_as` says it. Throws std::runtime_error when it is absent.
Manifest load_manifest(const std::string& id);

}  // namespace test
