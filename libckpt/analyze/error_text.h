#pragma once
// ErrorFacts: what an error message of PyTorch, safetensors or transformers says about a checkpoint, as data. The text
// may have anything around it (a traceback, a log).
// Thread safety: pure. Use: ckpt::ErrorFacts facts = ckpt::parse_error_text(text); if (facts.keys()) ...

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libckpt/analyze/known_messages.h"
#include "libcore/base/shape.h"

namespace ckpt {

struct ErrorFacts {
  struct Mismatch {
    std::string key;
    core::Shape in_file;
    core::Shape in_model;
  };
  /// What kinds of complaint a text can hold.
  enum class Kind : std::uint8_t {
    keys,              ///< missing, unexpected or mismatched keys
    device,            ///< tensors saved on a device that is not there
    globals,           ///< weights_only refuses what the pickle names
    header_too_large,  ///< safetensors: the first bytes are no header
    cut,               ///< safetensors: the file is shorter than its header says; EOFError
    zip_directory,     ///< PytorchStreamReader: no central directory
    load_key,          ///< pickle: invalid load key
    optimizer_groups,  ///< other number or size of parameter groups
    shared_memory,     ///< safetensors: some tensors share memory
    not_a_dict,        ///< load_state_dict was given a module or something else
    dtype,             ///< a dtype that the reader does not know
    shape,             ///< a size mismatch without the name of a key
    known,             ///< `known` says what it is
  };
  std::vector<Kind> kinds;
  std::string model;                    ///< class named by the message: "ResNet"
  std::vector<std::string> missing;     ///< keys the model wants and the file has not
  std::vector<std::string> unexpected;  ///< keys the file has and the model does not want
  std::vector<Mismatch> mismatched;
  std::vector<std::string> globals;     ///< "argparse.Namespace"
  std::string load_key;                 ///< the byte that a pickle must not begin with: "<", "v"
  std::string dtype;                    ///< the name the reader does not know: "BFloat16", "F8_E4M3"
  std::optional<std::int64_t> device;   ///< index of the CUDA device that the file asks for
  std::optional<std::int64_t> devices;  ///< how many there are

  const KnownMessage* known = nullptr;  ///< what a message that names no key means

  bool has(Kind kind) const;
  bool keys() const { return has(Kind::keys); }
  bool empty() const { return kinds.empty(); }
};

/// Reads PyTorch's "Missing key(s) ... Unexpected key(s) ... size mismatch for ...", its texts about devices,
/// weights_only, zip archives and parameter groups, safetensors' SafetensorError, and what transformers says about
/// weights that were not used or newly initialized. Text that says none of that gives empty facts. Never throws; cost
/// linear in the text.
ErrorFacts parse_error_text(std::string_view text);

/// The facts about keys, a dtype or parameter groups in one line that parse_error_text() reads back; "" when they hold
/// others.
std::string short_error_text(const ErrorFacts& facts);

}  // namespace ckpt
