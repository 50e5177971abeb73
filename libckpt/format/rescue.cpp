#include "libckpt/rescue.h"

#include <algorithm>

#include "libckpt/budget.h"
#include "libckpt/damage.h"
#include "libckpt/format/format.h"
#include "libckpt/format/native/native.h"
#include "libckpt/format/native/restore.h"
#include "libckpt/format/salvage.h"
#include "libckpt/format/sieve.h"
#include "libckpt/hint.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"

namespace ckpt {
namespace {

using core::Error;
using core::ErrorCode;
using detail::Salvage;

/// What every reader of ours can make of the file, with all checksums compared.
Salvage open_checked(const Input& input, const RescueOptions& options) {
  const Format& format = detect_format(input);
  OpenOptions open;
  open.limits = options.limits;
  open.threads = options.threads;
  open.check_hashes = true;
  open.foreign_objects = true;
  open.report = options.report;
  Salvage out{format.read(input, open), std::string(format.name), format.has_checksums, {}, false};
  out.checkpoint.format = format.name;
  return out;
}

/// By the file's own reader; where that refuses, by what is left of it.
Salvage read_remains_of(const Input& input, const RescueOptions& options, const std::filesystem::path& scratch) {
  try {
    return open_checked(input, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt) throw;
    if (auto found = detail::salvage_zip(input, options)) return std::move(*found);
    if (auto found = detail::salvage_safetensors(input, options, scratch)) return std::move(*found);
    throw;
  }
}

/// The tensors of a native file without its index, as any HDF5 reader sees them. There is nothing to prove them by.
Salvage read_hdf5_part(const Input& input, const RescueOptions& options) {
  constexpr std::string_view kTopGroup = "data.";
  OpenOptions open;
  open.limits = options.limits;
  open.lenient = true;
  open.threads = options.threads;
  Salvage out{find_format("hdf5")->read(input, open), "native", false, {}, true};
  Dict root = out.checkpoint.root.as_dict();
  for (auto& [key, value] : root.items) {
    std::string_view name = key.as_text();
    if (name.starts_with(kTopGroup)) key = Value::text(std::string(name.substr(kTopGroup.size())));
  }
  out.checkpoint.root = Value::dict(std::move(root));
  return out;
}

class Rescuer {
 public:
  Rescuer(const std::filesystem::path& path, std::filesystem::path output, const RescueOptions& options)
      : options_(options), input_(open_input(path)), output_(std::move(output)), scratch_(output_.parent_path()) {}

  RescueReport run() {
    if (detail::is_native_remains(input_)) {
      run_native();
    } else {
      keep_tensors(read_remains_of(input_, options_, scratch_));
    }
    return std::move(report_);
  }

 private:
  bool stays_native() const {
    if (!options_.format.empty()) return options_.format == detail::kNative.name;
    const Format* format = find_format_for(output_);
    return format == nullptr || format == &detail::kNative;
  }

  void run_native() {
    report_.format = detail::kNative.name;
    detail::RestoredNative restored = detail::restore_native(input_, options_, scratch_, report_);
    report_.whole = restored.whole;
    note_edits(restored.edited);
    if (restored.whole && stays_native()) return copy(restored.input);
    keep_tensors(read_native_remains(restored.input));
  }

  Salvage read_native_remains(const Input& restored) {
    try {
      return {detail::read_remains(restored, options_), "native", report_.proven, {}, report_.damaged};
    } catch (const Error& error) {
      if (error.code() != ErrorCode::corrupt || !find_format("hdf5")->detect(input_)) throw;
      report_.notes.push_back({"index", error.message() + "; names, shapes and values come from the HDF5 part"});
      return read_hdf5_part(input_, options_);
    }
  }

  /// A file that another program changed on purpose is not to lose that unasked.
  void note_edits(const std::vector<std::string>& edited) {
    constexpr const char* kText = "it looks as if another program had changed it on purpose";
    Hint hint{"{} keeps what it wrote", {{Hint::Option::reindex}}};
    for (const std::string& name : edited) report_.notes.push_back({name, kText, hint});
    if (!options_.in_place || edited.empty()) return;
    hint.text += ", and {} writes what was there before to another file";
    hint.options.push_back({Hint::Option::output});
    throw HintedError(ErrorCode::refused, core::quote(edited[0]) + ": " + kText, std::move(hint));
  }

  /// The file as it was, byte for byte.
  void copy(const Input& whole) {
    report_.tensors = list_entries(detail::read_remains(whole, options_).root).size();
    if (options_.dry_run || (options_.in_place && !report_.damaged)) return;
    AtomicFile file(output_, {.overwrite = options_.overwrite || options_.in_place,
                              .durable = options_.durable,
                              .expected_size = whole.file->size()});
    file.write_from(*whole.file);
    whole.file->require_unchanged();
    file.commit();
    report_.written = true;
    if (options_.report != nullptr) options_.report->bytes_written += file.position();
  }

  /// As open() does: a small file may claim a million names, or terabytes of values. What this library packed accounts
  /// for itself.
  Value within_limits(const Value& root) const {
    Limits limits = options_.limits;
    if (report_.format == detail::kNative.name) limits.expansion_floor = UINT64_MAX;
    Budget budget(limits, input_.file->size());
    return within_budget(root, *input_.file, budget);
  }

  void keep_tensors(Salvage found) {
    report_.format = found.format;
    report_.proven = found.proven;
    found.checkpoint.root = within_limits(found.checkpoint.root);
    detail::Sieved sieved = detail::sieve(found.checkpoint, options_.threads, options_.progress);
    report_.lost = std::move(found.lost);
    report_.lost.insert(report_.lost.end(), sieved.lost.begin(), sieved.lost.end());
    report_.tensors = sieved.tensors;
    report_.damaged = report_.damaged || found.damaged || !report_.lost.empty();
    if (options_.in_place && !report_.lost.empty()) {
      const Finding& first = report_.lost[0];
      Hint hint{"name an output with {} to keep the others", {{Hint::Option::output}}};
      if (first.hint) hint = both(hint, *first.hint);
      throw HintedError(ErrorCode::corrupt,
                        core::format_count(report_.lost.size()) + " tensors cannot be restored, the first of them " +
                            core::quote(first.subject) + " (" + first.text + ")",
                        std::move(hint));
    }
    found.checkpoint.root = std::move(sieved.root);
    bool nothing = report_.tensors == 0 && !report_.lost.empty();
    bool as_it_is = options_.in_place && !report_.damaged;
    if (!nothing && !as_it_is && !options_.dry_run) write(found.checkpoint);
  }

  void write(const Checkpoint& checkpoint) {
    SaveOptions save;
    save.format = options_.format;
    if (save.format.empty() && find_format_for(output_) == nullptr) save.format = report_.format;
    save.overwrite = options_.overwrite || options_.in_place;
    save.durable = options_.durable;
    save.max_memory = options_.max_memory;
    save.threads = options_.threads;
    save.report = options_.report;
    ckpt::save(checkpoint, output_, save);
    input_.file->require_unchanged();
    report_.written = true;
  }

  const RescueOptions& options_;
  Input input_;
  std::filesystem::path output_;
  std::filesystem::path scratch_;
  RescueReport report_;
};

}  // namespace

RescueReport rescue(const std::filesystem::path& path, const std::filesystem::path& output,
                    const RescueOptions& options) {
  return core::with_context(path.string(), [&] { return Rescuer(path, output, options).run(); });
}

}  // namespace ckpt
