#pragma once
// A module's state as a checkpoint and back: core::StateDict <-> Checkpoint, and the calls that most programs use.
// Thread safety: any number of calls at once on different modules and targets.
// Use: ckpt::save(model.state_dict(), "net.ckpt"); plain.load_state_dict(ckpt::load("net.ckpt"));

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "libckpt/bridge/detail/device_reads.h"
#include "libckpt/bridge/map_location.h"
#include "libckpt/checkpoint.h"
#include "libckpt/open_save.h"
#include "libckpt/transform/rules.h"
#include "libcore/module/module.h"
#include "libcore/module/state_dict.h"
#include "libcore/tensor/tensor.h"

namespace ckpt {

struct LoadOptions {
  MapLocation map_location = {};
  /// Which state dict, where a file holds several: "model", "ema.model". Empty: the model (choose_state_dict()).
  std::string path = {};
  OpenOptions open = {};
  Rules rules = {};  ///< applied to the state dict that was chosen: other names, transposes, splits, casts, ...
  DeviceRing ring = {};
};

struct LoadIntoOptions {
  /// Values always go where the module's tensors are; this only decides which tags are accepted: one whose device is
  /// not there is an error, as with torch.load, unless it is mapped to one that is.
  MapLocation map_location = {};
  std::string path = {};
  /// Missing and unexpected keys are an error, as in load_state_dict.
  bool strict = true;
  /// Wrapper components (module, _orig_mod, _fsdp_wrapped_module, ...) that only one side has are added or taken off
  /// first.
  bool reconcile = true;
  OpenOptions open = {};
  Rules rules = {};  ///< as for load(), before wrapper components change; one that matches nothing is a warning
  DeviceRing ring = {};
};

/// What load_into did.
struct LoadReport {
  std::string file;
  std::string format;
  std::string path = {};   ///< the state dict that was taken, "" for the root
  std::size_t loaded = 0;  ///< tensors copied into the module
  std::uint64_t bytes = 0;
  /// Wrapper text taken off or put on keys, with the number of keys: {"module.", 10}.
  std::vector<std::pair<std::string, std::size_t>> stripped;
  std::vector<std::pair<std::string, std::size_t>> added;
  /// Tags of the file and where their tensors went: {"cuda:1", "cpu"}; only those that changed.
  std::vector<std::pair<std::string, std::string>> moved;
  std::vector<std::string> missing_keys;
  std::vector<std::string> unexpected_keys;
  std::vector<std::string> warnings;
};

/// A few lines for a person, each ending in a newline.
std::ostream& operator<<(std::ostream& out, const LoadReport& report);

/// The tensors of a state dict in memory on the devices their tags (or `map_location`) say. Ties and views share
/// storage as they did when saved; every other tensor has a storage of its own (small ones lie side by side in blocks
/// of up to 32 MiB, on a GPU of 4 MiB, which go back when the last of them goes). open.threads threads read and unpack,
/// four times as many into memory of the host where the file is on a disk alone, as most then wait for that. To a GPU
/// the bytes go through `options.ring`; when this returns they have been read, and what the current stream of the
/// device is given next finds them there, without a synchronisation. Other streams wait for that one, as always.
/// Errors: those of open(), which looks past objects of unknown classes (Lightning keeps pickled modules among its
/// settings); those of choose_state_dict(); Error(device) with PyTorch's text for a missing device, before a tensor's
/// first byte is read.
core::StateDict load(const std::filesystem::path& path, const LoadOptions& options = {});

/// Loads a file into a module in place, reading straight into its tensors where dtype and layout allow, as load() does
/// to a GPU. Nothing is changed unless all shapes fit (and, when strict, all keys) and all devices are there. Errors:
/// those of load(); Error(runtime) with PyTorch's three-line text. A file or device that fails half-way is an error
/// that names the key at which it did; tensors may then hold the file's values, their own, or part of each.
LoadReport load_into(core::Module& module, const std::filesystem::path& file, const LoadIntoOptions& options = {});
/// The same from a checkpoint that is open already; of `options.open` only `threads` is used.
LoadReport load_into(core::Module& module, const Checkpoint& checkpoint, const LoadIntoOptions& options = {});

/// Writes tensors with their devices as location tags, module versions and ties. The format follows the file name.
void save(const core::StateDict& state, const std::filesystem::path& path, const SaveOptions& options = {});
/// Its state_dict().
void save(const core::Module& module, const std::filesystem::path& path, const SaveOptions& options = {});
void save(const std::map<std::string, core::Tensor>& tensors, const std::filesystem::path& path,
          const SaveOptions& options = {});
/// One tensor alone, as torch.save(tensor) does. Error(unsupported) by formats that hold named tensors.
void save(const core::Tensor& tensor, const std::filesystem::path& path, const SaveOptions& options = {});
/// Any tree: ckpt::save(ckpt::Value::dict({{"epoch", 3}, {"model", ckpt::to_value(model.state_dict())}}), "run.pth").
void save(const Value& root, const std::filesystem::path& path, const SaveOptions& options = {});
/// A tensor that was saved alone, or the one called `options.path`: {.path = "model.fc.weight"}. `options.rules` is not
/// used. Errors: those of open(); Error(key) naming the nearest keys; Error(device) as load().
core::Tensor load_tensor(const std::filesystem::path& path, const LoadOptions& options = {});

/// An OrderedDict of tensors with `_metadata`, as torch.save would see it. Tensors are not copied: the checkpoint keeps
/// them alive and reads them when it is saved.
Value to_value(const core::StateDict& state);
/// The reverse, as load() does it; values that are no tensors are Error(type) naming the key.
core::StateDict to_state_dict(const Dict& dict, const MapLocation& map_location = {}, const DeviceRing& ring = {},
                              unsigned threads = 0);

Value to_value(const core::Tensor& tensor);

/// One tensor as an entry, and an entry as a tensor on `device`. Error(unsupported) for quantised blocks.
EntryPtr to_entry(const core::Tensor& tensor);
core::Tensor to_tensor(const Entry& entry, core::Device device);

}  // namespace ckpt
