#pragma once
// Facts of a checkpoint tree in one comparable form, from our reader and from a golden manifest, so that a test can
// compare them line by line. Thread safety: pure. Use: our_facts(root).values == golden_facts(manifest).values

#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "tests/support/manifest.h"

namespace test {

/// A tensor, or an object that stands for one (numpy array, sparse, quantised).
struct TensorPlace {
  std::string path;
  ckpt::Value value;
};

struct TreeFacts {
  std::vector<std::string> containers;  ///< "path OrderedDict 4"
  std::vector<std::string> values;      ///< "path int 3"
  std::vector<std::string> metadata;    ///< "path module {...}"
  std::vector<TensorPlace> tensors;
};

TreeFacts our_facts(const ckpt::Value& root);
/// Without tensors, which the manifest lists itself.
TreeFacts golden_facts(const Manifest& manifest);

/// "a/{"index":0}" as both sides write it.
std::string join_path(const std::vector<std::string>& steps);
/// Python's dtype name and little-endian C-order bytes of a pickled numpy array; "" for what is none.
struct NumpyArray {
  std::string descr;
  std::vector<std::int64_t> shape;
  core::ByteVector bytes;
};
bool read_numpy(const ckpt::Value& value, NumpyArray& out);

/// "" or what differs. Compares one tensor with what the manifest says of it.
std::string compare_tensor(const ManifestTensor& want, const ckpt::Value& got);

}  // namespace test
