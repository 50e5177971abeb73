#include "tools/ckpt/line/options.h"

#include <malloc.h>

#include <algorithm>
#include <charconv>

#include "libckpt/io/json.h"
#include "libckpt/io/kept_memory.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/address.h"
#include "tools/ckpt/output/few_of_a_kind.h"

namespace cli {
namespace {

core::Error usage_error(const std::string& text) {
  return core::Error(core::ErrorCode::usage, text);
}

std::uint64_t parse_positive_size(const std::string& text) {
  std::optional<std::uint64_t> size = core::try_parse_size(text);
  if (!size || *size == 0) throw usage_error(core::quote(text) + " is not a size such as 512M or 4GB");
  return *size;
}

void add_size(CommandSpec command, const std::string& name, std::uint64_t& target, const std::string& description) {
  command
      .add_option(
          name, [&target](const std::string& text) { target = parse_positive_size(text); }, description)
      .type_name("SIZE");
}

/// Of what is on its way between two files: the writer's part is in the options of the save, the readers' is said here.
void add_max_memory(CommandSpec command, std::uint64_t& most) {
  command
      .add_option(
          "--max-memory",
          [&most](const std::string& text) {
            most = parse_positive_size(text);
            ckpt::limit_read_memory(most / 2);
            ::mallopt(M_ARENA_MAX, 1);  // what one thread has freed serves the others
          },
          "memory for tensors on their way between the files, however large they are: what is read, unpacked, "
          "computed, checked and packed; the list of the tensors, about 1 KB each, comes on top (default: 256M; less "
          "than 64M is "
          "not held)")
      .type_name("SIZE");
}

void add_slack(CommandSpec command, std::uint64_t& slack) {
  command
      .add_option(
          "--slack",
          [&slack](const std::string& text) {
            std::optional<std::uint64_t> size = core::try_parse_size(text);
            if (!size) throw usage_error(core::quote(text) + " is not a size such as 4K or 0");
            slack = *size;
          },
          "room for longer names in the header of a new .safetensors, so that later edits in place fit; 0 for none "
          "(default: 4K)")
      .type_name("SIZE");
}

void add_codec(CommandSpec command, ckpt::Codec& codec) {
  command
      .add_option(
          "--codec",
          [&codec](const std::string& text) {
            std::optional<ckpt::Codec> named = ckpt::codec_named(text);
            if (!named) throw usage_error(core::quote(text) + " is not a codec; use none, zstd, fast or gzip");
            codec = *named;
          },
          "compress tensors, where the format can: none, zstd (also called tight: smallest), fast (.ckpt: floats "
          "that load as fast as plain ones, read by no other program) or gzip (read by every HDF5 program)")
      .type_name("CODEC");
}

/// "5%" or "0.05".
std::optional<double> try_parse_share(std::string_view text) {
  bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (percent) value /= 100;
  return value >= 0 && value <= 1 ? std::optional(value) : std::nullopt;
}

void add_parity(CommandSpec command, double& parity) {
  command
      .add_option(
          "--parity",
          [&parity](const std::string& text) {
            std::optional<double> share = try_parse_share(text);
            if (!share) throw usage_error(core::quote(text) + " is not a percentage such as 5%");
            parity = *share > 0 ? *share : -1;
          },
          "add parity data to a .ckpt, so that 'ckpt rescue' can restore it when up to this share, such as 5%, is "
          "damaged; 0: none (default: as in the input)")
      .type_name("SHARE");
}

void add_retype(CommandSpec command, std::vector<ckpt::Retype>& retype) {
  command
      .add_options(
          "--retype",
          [&retype](const std::vector<std::string>& pairs) {
            for (const std::string& pair : pairs) {
              std::size_t equals = std::min(pair.find('='), pair.size());
              auto from = core::try_parse_dtype(pair.substr(0, equals));
              auto to = core::try_parse_dtype(pair.substr(std::min(equals + 1, pair.size())));
              if (!from || !to) throw usage_error(core::quote(pair) + " is not a pair of types such as bf16=f32");
              retype.push_back({*from, *to});
            }
          },
          "write tensors of type OLD as NEW, where the output format has no OLD; may be repeated")
      .type_name("OLD=NEW")
      .one_value_each();
}

/// One line each, so that standard error of a command under --json is JSON lines.
void say_report_json(const std::filesystem::path& file, const ckpt::Report& report) {
  auto say = [&](const char* kind, const std::vector<std::string>& texts) {
    for (const Said& said : few_of_a_kind(texts)) {
      ckpt::JsonWriter json;
      json.begin_object();
      json.key(kind).begin_object();
      json.key("path").value(shown_path(file.string()));
      json.key("message").value(said.text);
      if (said.more > 0) json.key("more").value(said.more);
      json.end_object();
      json.end_object();
      print_error_line(json.text());
    }
  };
  say("warning", report.warnings);
  say("accepted", report.relaxations);
  say("left_out", report.dropped);
}

}  // namespace

ckpt::OpenOptions ReadOptions::open(ckpt::Report& report) const {
  ckpt::OpenOptions options;
  options.lenient = lenient;
  options.foreign_objects = foreign_objects;
  options.allow_symlinks = allow_symlinks;
  options.unsandboxed = unsandboxed;
  options.limits.max_expansion = max_expansion;
  options.threads = threads;
  options.io = io;
  options.report = &report;
  return options;
}

ckpt::OpenOptions ReadOptions::look(ckpt::Report& report) const {
  ckpt::OpenOptions options = open(report);
  options.look_past_foreign = true;
  return options;
}

int ReadOptions::looked(const ckpt::Report& report) const {
  return report.foreign.empty() || foreign_objects ? kDone : kNo;
}

void add_json_options(CommandSpec command, bool& json) {
  OptionSpec document = command.add_flag("--json", json, "machine-readable output");
  command.add_flag("--jsonl", json, "the same as lines of JSON: one per file, then one per item").excludes(document);
}

void add_answer_options(CommandSpec command, ReadOptions& options) {
  add_json_options(command, options.json);
  command.add_flag("-q,--quiet", options.quiet, "print only the result: no messages, no progress");
}

RemoteAccess& remote_access() {
  static RemoteAccess access;
  return access;
}

void add_remote_options(CommandSpec command) {
  command.add_flag("--insecure-http", remote_access().insecure_http,
                   "also read http:// of other machines, where anybody on the way can change the bytes");
  command
      .add_option("--cacert", remote_access().ca_file,
                  "for https://: trust the certificates in this file (PEM), not those of the system")
      .type_name("PEM");
}

void add_read_options(CommandSpec command, ReadOptions& options) {
  add_answer_options(command, options);
  command.add_option("-j,--threads", options.threads, "threads (default: one per core)").type_name("N");
  command.add_flag("--lenient", options.lenient, "accept known deviations from the format; each one is named");
  command.add_flag(
      "--foreign-objects", options.foreign_objects,
      "keep objects of unknown Python classes as inert data in any format, and read pickled modules as state dicts");
  command.add_flag("--allow-symlinks", options.allow_symlinks, "in a folder, also follow links that lead out of it");
  command.add_flag("--unsandboxed", options.unsandboxed,
                   "read HDF5 files even where the helper program cannot be sandboxed");
  command
      .add_option("--max-expansion", options.max_expansion,
                  "refuse a file that unpacks to over 256 MiB and N times its size on disk (default: 100)")
      .type_name("N");
}

void add_io_option(CommandSpec command, ReadOptions& options) {
  command
      .add_option(
          "--io",
          [&options](const std::string& text) {
            std::optional<ckpt::Io> named = ckpt::io_named(text);
            if (!named) throw usage_error(core::quote(text) + " is not a way; use auto, buffered or direct");
            options.io = *named;
          },
          "large reads and writes: buffered (through the page cache), direct (past it), or auto: direct for large "
          "durable saves and for what is not in memory yet, on local disks (default: auto)")
      .type_name("WAY");
}

void add_write_options(CommandSpec command, EditOptions& options) {
  command.add_flag("--in-place", options.in_place,
                   "change the input itself: what of it changes, where no tensor moves, else a new file in its place");
  command.add_flag("--follow", options.follow, "with --in-place: change the file behind a symbolic link");
  command.add_flag("-n,--dry-run", options.dry_run, "say what would be done and write nothing");
  command.add_flag("-f,--force", options.force,
                   "overwrite an existing output; with --in-place also a read-only file or one with hard links");
  command.add_flag("--drop", options.drop, "leave out what the output format cannot hold, and list it");
  add_retype(command, options.retype);
  add_codec(command, options.codec);
  add_parity(command, options.parity);
  add_slack(command, options.slack);
  add_size(command, "--max-shard-size", options.max_shard_size, "split the output into files of at most this size");
  add_max_memory(command, options.max_memory);
  add_io_option(command, options);
  add_read_options(command, options);
  add_remote_options(command);
}

void add_edit_options(CommandSpec command, EditOptions& options, const std::string& default_name) {
  command.add_option("FILE", options.files, "checkpoint; FILE::path means the dict of that name inside")
      .required()
      .type_name("");
  command
      .add_option("-o,--output", options.output,
                  "output, or - for standard output; a folder when several files are given, made if its name ends in / "
                  "(default: " +
                      default_name + ")")
      .type_name("OUT");
  add_write_options(command, options);
}

void add_rank_options(CommandSpec command, EditOptions& options) {
  command
      .add_option("--ranks", options.shards,
                  "into OUT.dcp or OUT.parts: the files of this many (default: of a DCP "
                  "folder into another one as many as it has, else 1)")
      .type_name("N")
      .range(1, 65536);
  command
      .add_option("--shard-dim", options.shard_dim,
                  "with --ranks: cut tensors along this dimension (default: 0); those without it go to one rank each")
      .type_name("D")
      .range(0, 63);
}

void add_selection_options(CommandSpec command, ckpt::Selection& selection) {
  command
      .add_option("--include", selection.include,
                  "only what matches: a glob, re:EXPRESSION, @dtype=bf16, @numel>1M, @ndim=1, @kind=buffer, "
                  "@location=cuda:1, @bytes>1MiB; several in one argument must all hold; may be repeated")
      .type_name("SELECTOR")
      .one_value_each();
  command.add_option("--exclude", selection.exclude, "leave out what matches; wins over --include; may be repeated")
      .type_name("SELECTOR")
      .one_value_each();
}

void say_report(const ReadOptions& options, const std::filesystem::path& file, const ckpt::Report& report) {
  if (options.quiet) return;
  if (options.json) return say_report_json(file, report);
  std::string start = "ckpt: " + core::printable(shown_path(file.string())) + ": ";
  auto say = [&](const char* kind, const std::vector<std::string>& texts) {
    for (const Said& said : few_of_a_kind(texts)) print_error_line(start + kind + one_line(said.text));
  };
  say("warning: ", report.warnings);
  say("accepted: ", report.relaxations);
  say("left out: ", report.dropped);
}

CommandSpec add_command(CommandSpec app, const std::string& name, const std::string& example,
                        const std::string& description) {
  return app.add_command(name, description, "Examples:\n  " + example);
}

}  // namespace cli
