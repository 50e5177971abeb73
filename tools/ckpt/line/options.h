#pragma once
// Options that several commands share, and how they become options of the library.
// Thread safety: plain values. Use: auto options = std::make_shared<EditOptions>(); add_edit_options(*sub, *options);

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libckpt/options.h"
#include "libckpt/transform/selector.h"
#include "tools/ckpt/line/arguments.h"
#include "tools/ckpt/output/output.h"

namespace cli {

/// What a command needs while it runs.
struct Context {
  Output out;
  /// What is left to the system to free when the program ends: taking 100,000 tensors apart costs more than showing
  /// them.
  std::shared_ptr<const void> kept;
};

/// The command that was chosen; main runs it once the command line is understood.
using Command = std::function<int(Context&)>;

struct ReadOptions {
  bool json = false;
  bool quiet = false;
  bool lenient = false;
  bool foreign_objects = false;
  bool allow_symlinks = false;
  bool unsandboxed = false;
  std::uint64_t max_expansion = ckpt::Limits().max_expansion;
  unsigned threads = 0;
  ckpt::Io io = ckpt::Io::automatic;

  ckpt::OpenOptions open(ckpt::Report& report) const;
  /// For commands that only look: a file whose objects are partly of unknown classes is shown as far as it is known.
  ckpt::OpenOptions look(ckpt::Report& report) const;
  /// Exit code of such a command: 1 when `report` names unknown classes that --foreign-objects did not ask to keep.
  int looked(const ckpt::Report& report) const;
};

struct EditOptions : ReadOptions {
  std::vector<std::string> files;
  std::string output;
  bool in_place = false;
  bool follow = false;
  bool dry_run = false;
  bool force = false;
  bool drop = false;
  bool take_modules = false;  ///< of a pickled module, its tensors as a state dict
  ckpt::Codec codec = ckpt::Codec::automatic;
  std::uint64_t max_shard_size = 0;
  std::uint64_t slack = 4096;
  std::uint32_t shards = 0;
  std::uint32_t shard_dim = 0;
  std::vector<std::string> shard_prefixes;
  std::vector<ckpt::Retype> retype;
  double parity = 0;  ///< as ckpt::SaveOptions has it; -1: none, also where the input had some
  std::uint64_t max_memory = ckpt::SaveOptions().max_memory;
};

/// --json and --jsonl, which both set `json`; the form of the output is chosen where the command is run.
void add_json_options(CommandSpec command, bool& json);

/// How files on other machines are read, for all files of a command line.
struct RemoteAccess {
  bool insecure_http = false;
  std::string ca_file;
};
RemoteAccess& remote_access();
/// --insecure-http and --cacert FILE, which set remote_access().
void add_remote_options(CommandSpec command);

/// --json, --jsonl, -q.
void add_answer_options(CommandSpec command, ReadOptions& options);
/// Those, and -j, --lenient, --foreign-objects.
void add_read_options(CommandSpec command, ReadOptions& options);
/// --io, for commands that read or write tensors.
void add_io_option(CommandSpec command, ReadOptions& options);

/// Those and those of remote files, FILE..., and -o, --in-place, --follow, --dry-run, -f, --codec, --max-shard-size,
/// --drop, --retype,
/// --max-memory. `default_name` says in --help what the output is called without -o.
void add_edit_options(CommandSpec command, EditOptions& options, const std::string& default_name);
/// The same without FILE... and -o, for convert, which names its files itself.
void add_write_options(CommandSpec command, EditOptions& options);

/// --ranks N and --shard-dim D, which say how a distributed checkpoint is spread (EditOptions::shards).
void add_rank_options(CommandSpec command, EditOptions& options);

/// --include SELECTOR and --exclude SELECTOR, both repeatable (libckpt/transform/selector.h).
void add_selection_options(CommandSpec command, ckpt::Selection& selection);

/// Warnings, accepted deviations and what was left out, one line each on standard error, unless quiet.
void say_report(const ReadOptions& options, const std::filesystem::path& file, const ckpt::Report& report);

/// A subcommand with its example, which --help shows first.
CommandSpec add_command(CommandSpec app, const std::string& name, const std::string& example,
                        const std::string& description);

}  // namespace cli
