#pragma once
// why: why a checkpoint does not load into a model, and what makes it load. A diagnosis is data: causes with evidence,
// how many keys and bytes match before and after, and a plan of steps that apply_fix() (why/fix.h) carries out.
// Thread safety: pure. Use: ckpt::Diagnosis d = ckpt::why("best.pth", {.wanted = {wanted}});

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libckpt/analyze/error_text.h"
#include "libckpt/analyze/key_list.h"
#include "libckpt/checkpoint.h"
#include "libckpt/hint.h"
#include "libckpt/options.h"
#include "libckpt/transform/rule_pack.h"

namespace ckpt {

enum class CauseKind : std::uint8_t {
  // the file itself
  lfs_pointer,       ///< a git-LFS pointer instead of the weights
  web_page,          ///< HTML, XML or JSON: the download got an answer, not the file
  truncated,         ///< cut off
  corrupt,           ///< damaged otherwise
  not_a_checkpoint,  ///< something else: gzip, a program, text, zeros
  unsafe_pickle,     ///< names functions that no checkpoint needs
  program,           ///< the file may be good; the program expects something else, or more memory
  // its tree
  foreign_globals,  ///< objects that torch.load(weights_only=True) refuses
  pickled_module,   ///< the module itself was pickled, not its state dict
  nested_dict,      ///< the state dict lies below other things
  scattered_dicts,  ///< the model's parts lie in several dicts
  rank_part,        ///< one process of several saved its own part of the model
  device_tags,      ///< saved on devices that are not there
  // names
  wrapper_prefix,      ///< DataParallel, torch.compile, FSDP, ... at the start of every key
  wrapper_inside,      ///< the same in the middle of keys
  missing_wrapper,     ///< the model is wrapped, the file is not
  prefix_offset,       ///< another prefix: "model.", "backbone."
  component_renamed,   ///< one component has another name: gamma, norm.1
  component_inserted,  ///< one component more or less: base_layer
  old_names,           ///< names of an older release or of weight norm
  foreign_names,       ///< names of another project, that a rule pack knows
  order_only,          ///< shapes agree in order, names do not
  // shapes
  transposed,         ///< Linear weights as Conv1D or Keras keep them
  reshaped,           ///< dimensions of 1 more or less
  fused_projections,  ///< q, k, v in one tensor or in three
  head_size,          ///< other number of classes
  vocabulary_size,    ///< other number of tokens
  position_table,     ///< other number of positions
  input_channels,     ///< other number of channels in the first convolution
  depth,              ///< other number of layers
  width,              ///< other sizes throughout
  shape_mismatch,     ///< other shapes, without a pattern
  // leftovers
  missing_counters,  ///< num_batches_tracked
  extra_counters,
  missing_tables,  ///< index tables of windowed attention, which follow from the window
  missing_tied,    ///< a tied tensor is stored under one of its names only
  stale_buffers,   ///< buffers that newer releases no longer save
  extra_keys,
  missing_keys,
  optimizer_groups,  ///< parameter groups of another number or size
  optimizer_file,    ///< holds an optimizer state and no model
  no_state_dict,     ///< what torch.load gives is not a dict of tensors
  other_format,      ///< torch.load does not read the format
  unsupported_dtype,
  shared_tensors,  ///< tensors share memory, which safetensors' save_file refuses
};

/// "wrapper_prefix": for JSON and tables.
std::string_view name(CauseKind kind);
/// One clause for a person: "keys carry the prefix of a wrapper".
std::string_view title(CauseKind kind);

/// How much of what is wanted is there.
struct Match {
  std::uint64_t keys = 0;  ///< wanted keys that are there with their shape
  std::uint64_t wanted = 0;
  std::uint64_t bytes = 0;  ///< of the matched tensors
  std::uint64_t bytes_wanted = 0;
  friend bool operator==(const Match&, const Match&) = default;
};

/// A rule that gives keys other names, as part of a step.
struct KeyRule {
  enum class Kind : std::uint8_t {
    prefix,    ///< keys that begin with `from` begin with `to` instead; either ends with a dot or is empty
    path,      ///< whole components `from` become `to` wherever they stand; `to` may be empty
    wrappers,  ///< components that known wrappers add go wherever they stand
    table,     ///< exactly these keys
  };
  Kind kind = Kind::prefix;
  std::string from = {};
  std::string to = {};
  std::vector<std::pair<std::string, std::string>> table = {};
};

struct FixStep {
  enum class Kind : std::uint8_t {
    take,           ///< the dict at `at` becomes the file
    take_module,    ///< the same for a pickled module, which is opened as its state dict
    flatten,        ///< dicts inside one another become dotted keys
    plain_objects,  ///< foreign objects become plain data where that is clear, else go
    rename,         ///< `rule`
    drop,           ///< `keys` go
    drop_optimizer,
    rules,         ///< `rules` act, of the pack `at`; `to` is "backwards" where it is turned round
    add_counters,  ///< `keys` are added: int64 scalars of 0
    add_tables,    ///< `keys` are added in `shapes`: relative positions within a window
    tie,           ///< `pairs`: new name, existing name
    transpose,     ///< `keys`: dimensions of each as `order` says
    reshape,       ///< `shapes` of `keys`
    split,         ///< `keys[0]` into keys[1...] along dimension 0, `shapes` for each
    fuse,          ///< keys[1...] into keys[0] along dimension 0
    cast,          ///< tensors of the dtypes `keys` to `to`
    remap,         ///< every device tag becomes `to`
    convert,       ///< what is written is a PyTorch file
  };
  Kind kind;
  std::string text;  ///< "strip 'module.'"
  std::string at = {};
  std::string to = {};
  KeyRule rule = {};
  std::vector<std::string> keys = {};
  std::vector<std::pair<std::string, std::string>> pairs = {};
  std::vector<core::Shape> shapes = {};
  std::vector<std::size_t> order = {};
  Rules rules = {};
  /// rules: what the file is to remember of them (origin.h), "" to forget it; nullopt: what it remembers of others
  /// stays
  std::optional<std::string> origin = {};
};

struct FixPlan {
  std::vector<FixStep> steps;
  std::string at = {};   ///< dotted path of the dict whose keys change, once the first steps took what they take
  bool loses = false;    ///< drops tensors or values that the file has (an optimizer, extra keys)
  bool reaches = false;  ///< a key that is dropped names a module of others: as a selector it would take them too
  bool empty() const { return steps.empty(); }
};

struct Cause {
  CauseKind kind;
  std::string text;                        ///< one sentence with names and numbers
  std::vector<std::string> evidence = {};  ///< one line each
  Match before = {};                       ///< with the steps of the causes before this one taken
  Match after = {};                        ///< with this one's steps taken too
  double confidence = 1;                   ///< 0 to 1; below 0.7 look before you trust it
  bool cured = false;                      ///< the plan holds a step against it
  std::string advice = {};                 ///< where no step helps: the command or the line of code that does
  std::string command = {};                ///< the shell line in `advice` that makes a file which can be opened
  std::optional<Hint> hint = {};           ///< what would help, where an error came with it
};

struct Diagnosis {
  std::string subject;      ///< the file as it was named, with the place inside it: "best.pth::model"
  std::string path = {};    ///< the file alone; "-" for standard input
  std::string at = {};      ///< the place inside it that was named
  std::string format = {};  ///< name of its format, "" when it cannot be read
  std::string description;  ///< "PyTorch zip checkpoint, 320 tensors under 'state_dict', saved on cuda:3"
  std::string target;       ///< what it was compared with, "" for nothing
  bool readable = true;
  std::vector<Cause> causes;       ///< in the order in which they are cured
  std::vector<std::string> notes;  ///< worth knowing, not in the way
  Match before;
  Match after;
  std::vector<std::string> missing;     ///< wanted keys that stay missing after the plan
  std::vector<std::string> unexpected;  ///< keys that nobody wants and that the plan leaves
  std::vector<std::string> mismatched;  ///< PyTorch's lines: "size mismatch for fc.weight: ..."
  FixPlan plan;
  std::vector<Value> place = {};  ///< steps from the top of the file to the dict that the plan takes or changes
  std::vector<Match> others;      ///< one for each of `also`: what else was tried
  std::vector<std::string> also;
  std::string nearest;  ///< known model that it was found to be, "" for none

  /// The same for other dicts of the file that give the model too, at most kMaxAlternatives: "ema" beside "model". The
  /// plan takes the first.
  std::vector<Diagnosis> alternatives;
  std::string tag = "fixed";  ///< the file that is made: "best.fixed.pth"; of an alternative "best.ema.pth"

  /// Names that the file leaves out because another name has the same tensor, with that name.
  std::vector<std::pair<std::string, std::string>> dropped_ties;
  bool ties_stated = false;  ///< the target ties all of them too
  bool numpy_reads = false;  ///< NumPy has every dtype of the file, and no tensor has two names

  /// The plan was applied to the names, shapes and versions of the file, and load_state_dict(strict=True) takes what
  /// comes out; without a target: there is a dict of tensors.
  bool proven = false;

  bool from_message = false;  ///< the file was not read: all that is known of it is what a message says
  bool shapes_known = true;   ///< the target has a shape for every key; else what is proven is so of the names alone

  /// Nothing has to be done, and that was checked.
  bool loads() const { return names_match() && shapes_known; }
  /// The same, as far as it can be known where the target has no shapes.
  bool names_match() const { return readable && causes.empty() && proven; }
  /// The plan makes it load, strictly, into what was wanted.
  bool fixable() const;
  /// The plan rests on a cause with a confidence below one half: tensors of equal shape may end up exchanged.
  bool guesses() const;
};

/// Known models, fetched only when shapes have to be searched.
using KnownModels = std::function<const std::vector<KeyList>&()>;
/// Rule packs between the names of projects, fetched only when names do not agree.
using KnownPacks = std::function<const std::vector<RulePack>&()>;

struct WhyOptions {
  std::vector<KeyList> wanted = {};  ///< what it is for; the best match is diagnosed
  std::string error = {};            ///< text of an error message
  std::string at = {};               ///< dotted path of the state dict, "" = find it
  KnownModels known = {};
  KnownPacks packs = {};
  std::int64_t cuda_devices = 0;  ///< how many GPUs the reader will have
  OpenOptions open = {};
};

/// What is known of a file that could be opened.
struct WhyInput {
  const Checkpoint* checkpoint = nullptr;
  std::string subject;
  std::vector<std::string> foreign_globals = {};  ///< that torch.load(weights_only=True) refuses
  std::vector<std::string> pickled_modules = {};  ///< classes of modules that were opened as their state dicts
  std::vector<const void*> module_dicts = {};     ///< Value::identity() of those dicts
};

/// Diagnoses an opened checkpoint. Errors: Error(key) when options.at names nothing.
Diagnosis why(const WhyInput& input, const WhyOptions& options);

/// Opens the file (keeping foreign objects as inert data) and diagnoses it; a file that cannot be opened gets a
/// diagnosis from its bytes. Errors: Error(io) only.
Diagnosis why(const std::filesystem::path& path, const WhyOptions& options);

/// Diagnoses what options.error alone says: the keys that it calls unexpected or of another shape, and the device that
/// it names, stand for the file, which is called "FILE". Errors: Error(usage) when it says nothing of either.
Diagnosis why_message(const WhyOptions& options);

constexpr std::size_t kMaxAlternatives = 3;

struct NearModel {
  const KeyList* model = nullptr;
  double share = 0;  ///< shapes in common over the larger number of tensors, counters left out
};

/// Known models by shapes alone, best first, at most `max`, none below a share of 0.5.
std::vector<NearModel> nearest_models(const std::vector<KeyList>& known, const Dict& state_dict, std::size_t max = 3);

}  // namespace ckpt
