#pragma once
// KeyList: what a model wants to be loaded: names in order, and shapes, dtypes and ties where they are known. It comes
// from a text or JSON file, from another checkpoint, from the zoo's manifests or from an error message.
// Thread safety: plain value. Use: ckpt::KeyList wanted = ckpt::parse_key_list(text, "keys.txt");

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libcore/base/dtype.h"
#include "libcore/base/shape.h"

namespace ckpt {

struct WantedKey {
  enum class Kind : std::uint8_t { unknown, parameter, buffer };
  std::string key;
  std::optional<core::Shape> shape = {};
  std::optional<core::DType> dtype = {};
  Kind kind = Kind::unknown;
  bool optional = false;  ///< the model loads without it, and with it
};

struct KeyList {
  std::string name;             ///< for messages: "resnet50", "keys.txt"
  std::string at = {};          ///< dotted path of the dict the keys were taken from, "" for the top
  std::vector<WantedKey> keys;  ///< in order, no name twice
  std::vector<std::vector<std::string>> ties = {};                  ///< names that share one tensor
  std::vector<std::pair<std::string, std::int64_t>> versions = {};  ///< module path, version; only those that are not 1
  std::vector<WantedKey> unsaved = {};  ///< buffers that the module has and that no file holds
  std::string reference = {};           ///< which library the list was taken from, with its version
  std::string arguments = {};           ///< what the model was constructed with, JSON
  std::uint64_t parameters = 0;         ///< elements of all parameters, tied ones once; 0 when not known
};

/// Reads a list in any of these forms:
///  * text, one key a line, optionally followed by shape, dtype and kind: "fc.weight 10x512 float32 parameter",
///    "fc.weight [10, 512]", "fc.weight torch.Size([10, 512])"; "scalar" is a shape. Lines "# word value" describe,
///    "~ path version", "= key key" and "- key shape dtype" are versions, ties and unsaved buffers;
///  * the table that `ckpt ls` or `ckpt zoo keys` prints;
///  * what Python prints: odict_keys(['fc.weight', 'fc.bias']), a list of names in quotes, a state dict with its
///  tensors,
///    {'fc.weight': torch.Size([10, 512])}, or pairs ('fc.weight', (10, 512));
///  * JSON: a list of names; an object of names with shapes ([10, 512], or {"shape": .., "dtype": ..}, or null); the
///    output of `ckpt ls` or `ckpt zoo keys` with --json or --jsonl, of one file; the index of a sharded file
///    ("weight_map"); a "state_dict" list of objects with "key".
/// Errors: Error(corrupt) with `name` as context for JSON that is none, a shape that is no shape, a key twice, or a
/// text without any key.
KeyList parse_key_list(std::string_view text, const std::string& name);

/// The names, shapes and dtypes of one dict of a checkpoint; ties are entries that share one view.
KeyList key_list_of(const Dict& state_dict, const std::string& name);

/// The same of the one that choose_state_dict() takes. Errors: its errors, with `name` as context.
KeyList key_list_of(const Checkpoint& checkpoint, const std::string& name, const std::string& at = "");

struct KeyDifferences {
  std::vector<std::string> missing;     ///< wanted and not there
  std::vector<std::string> unexpected;  ///< there and not wanted
  std::vector<std::string> shapes;      ///< "fc.weight: [1000, 512] where [10, 512] is wanted"
  std::vector<std::string> dtypes;      ///< the same for dtypes, where both sides know them
  bool order = false;                   ///< the same keys in another order
  bool none() const { return missing.empty() && unexpected.empty() && shapes.empty() && dtypes.empty(); }
};

/// Key by key, without guessing. `order` alone is no difference: nothing that loads depends on it.
KeyDifferences compare_keys(const KeyList& have, const KeyList& want);

}  // namespace ckpt
