#pragma once
// publish: what of a training file others need, ready to be handed out: the averaged weights where there are some, as a
// plain state dict without wrappers, on the CPU, in the dtype that is wanted, without the storages of old views.
// Nothing is read before the result is saved. Thread safety: pure. Use: ckpt::Publication out =
// ckpt::publish(ckpt::open("last.pth")); if (ckpt::find_non_finite(out).none()) ckpt::save(out.checkpoint, "net.pth");

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/checkpoint.h"
#include "libckpt/report.h"
#include "libckpt/transform/selector.h"

namespace ckpt {

struct PublishOptions {
  std::string at = {};  ///< dotted path of the state dict; "" = found
  /// "auto": the exponential moving average where the file holds exactly one (under a key with the word ema or swa, or
  /// as model_ema.* and ema_model.* inside the state dict); "off": never; else the dotted path of it.
  std::string ema = "auto";
  std::optional<core::DType> to = {};  ///< as cast() does; nullopt = types stay
  Selection keep = {};                 ///< tensors that keep their type
  bool keep_norms = true;              ///< so do normalisation layers, with their statistics
  bool strip_wrappers = true;
};

/// A part of the file and what became of it.
struct PublishPart {
  std::string name;  ///< "state_dict", "optimizer", ... at the top of the file; "(the file)" for a bare state dict
  std::string fate;  ///< "published", "published (moving average)", "filled in", "left out"
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;  ///< in the file, whole storages
};

struct Publication {
  Checkpoint checkpoint;  ///< to be saved
  Checkpoint uncast;      ///< the same before types were changed
  std::string source;     ///< dotted path of the weights that were taken, "" for the top
  bool is_average = false;
  std::vector<PublishPart> parts;
  std::vector<std::string> steps;  ///< what was done, one short sentence each
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t bytes_before = 0;  ///< of all tensors of the file
  std::uint64_t bytes_after = 0;
};

/// Errors: Error(usage) listing the candidates when several state dicts or averages could be meant; Error(key) when
/// there is none; those of the transforms it consists of.
Publication publish(const Checkpoint& checkpoint, const PublishOptions& options = {});

/// Tensors that nobody wants to load.
struct NonFinite {
  std::vector<std::string> nan;         ///< hold NaN
  std::vector<std::string> overflowed;  ///< hold infinities that they did not before the type was changed
  std::vector<std::string> infinite;    ///< hold infinities that the file already had
  bool none() const { return nan.empty() && overflowed.empty() && infinite.empty(); }
};

/// Reads all floats of the publication.
NonFinite find_non_finite(const Publication& publication, const Progress& progress = {});

}  // namespace ckpt
