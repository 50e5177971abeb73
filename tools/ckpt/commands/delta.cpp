// ckpt delta: a later checkpoint of a run as its difference to an earlier one, and back.

#include "libckpt/delta/delta.h"

#include <algorithm>

#include "libckpt/analyze/digest.h"
#include "libckpt/format/format.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/edit/edit.h"
#include "tools/ckpt/edit/standard_output.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/input.h"
#include "tools/ckpt/output/listing.h"
#include "tools/ckpt/output/progress.h"

namespace cli {
namespace {

using core::Error;
using core::ErrorCode;

struct MakeOptions : EditOptions {
  std::string base;
  std::string target;
};

struct ApplyOptions : EditOptions {
  std::string base;
  std::vector<std::string> deltas;
};

struct ChainOptions : ReadOptions {
  std::string base;
  std::vector<std::string> deltas;
};

/// Shows how far reading for the digests has come.
ckpt::DeltaOptions delta_options(const ReadOptions& options, ProgressBar& bar) {
  return {.threads = options.threads, .progress = bar.hook()};
}

ckpt::Checkpoint open_base(const ReadOptions& options, const std::string& text, ckpt::Report& report) {
  Address address = parse_address(text);
  ckpt::Checkpoint base = ckpt::open(address.path, options.look(report));
  core::with_context(address.shown(), [&] { base.root = ckpt::Value(ckpt::value_at(base.root, address.at)); });
  return base;
}

std::string counts_text(const ckpt::DeltaFacts& facts) {
  return core::format_count(facts.compared) + " of " + count_of(facts.tensors, "tensor") + " as differences";
}

void write_facts(ckpt::JsonWriter& json, const ckpt::DeltaFacts& facts) {
  json.key("base").value(ckpt::to_hex(facts.base));
  json.key("target").value(ckpt::to_hex(facts.target));
  json.key("tensors").value(facts.tensors);
  json.key("differences").value(facts.compared);
}

/// Asked when the output is written, so that its digests are known.
std::function<void(ckpt::JsonWriter&)> facts_writer(const ckpt::Checkpoint& delta) {
  return [delta](ckpt::JsonWriter& json) { write_facts(json, ckpt::delta_facts(delta)); };
}

Edit describe(const ckpt::Checkpoint& delta) {
  ckpt::DeltaFacts facts = ckpt::delta_counts(delta);
  Edit edit;
  edit.checkpoint = delta;
  edit.summary = counts_text(facts);
  if (facts.compared == 0) {
    edit.warnings.push_back(
        "no tensor of the base has the name, type and shape of one of these, so that nothing is saved");
  }
  edit.json = facts_writer(delta);
  return edit;
}

int make(Context& context, const MakeOptions& given) {
  MakeOptions options = given;
  if (options.codec == ckpt::Codec::automatic) options.codec = ckpt::Codec::zstd;
  const ckpt::Format* format = ckpt::find_format_for(options.output);
  if (!is_standard_output(options.output) && (format == nullptr || format->name != "native")) {
    throw Error(ErrorCode::usage, "a delta is a .ckpt file; give it a name such as net.delta.ckpt")
        .add_context(options.output);
  }
  Job job{parse_address(options.target), options.output, "native"};
  check_target(options, {parse_address(options.base), options.output, "native"});
  check_target(options, job);
  ckpt::JsonWriter json(2);
  int code = run_job(
      context, options, {"delta make", ""}, job,
      [&](const ckpt::Checkpoint& file, const std::string& at) {
        ckpt::Report ignored;
        ckpt::Checkpoint base = open_base(options, options.base, ignored), target = file;
        target.root = ckpt::Value(ckpt::value_at(file.root, at));
        return describe(ckpt::make_delta(base, target, {.threads = options.threads, .digests_when_saved = true}));
      },
      json);
  if (options.json) context.out.print(json.text() + "\n");
  return code;
}

std::vector<ckpt::Checkpoint> open_deltas(const ReadOptions& options, const std::vector<std::string>& files) {
  std::vector<ckpt::Checkpoint> deltas;
  for (const std::string& file : files) {
    ckpt::Report ignored;
    deltas.push_back(ckpt::open_delta(file, options.look(ignored)));
  }
  return deltas;
}

/// The place where a wrong digest came up is that of a tensor which has nothing to do with it.
template <class Body>
int in_few_words(const ApplyOptions& options, const Body& body) {
  try {
    return body();
  } catch (const ckpt::DigestError& error) {
    throw Error(error.code(), error.message()).add_context(options.base);
  }
}

int apply(Context& context, const ApplyOptions& options) {
  const ckpt::Format* format = ckpt::find_format_for(options.output);
  if (format == nullptr || format->write == nullptr) {
    throw Error(ErrorCode::usage,
                "its name does not say a format; use an extension such as .pth, .safetensors or .ckpt")
        .add_context(options.output);
  }
  Job job{parse_address(options.base), options.output, std::string(format->name)};
  check_target(options, job);
  for (const std::string& delta : options.deltas) check_target(options, {parse_address(delta), options.output, ""});
  ckpt::JsonWriter json(2);
  int code = in_few_words(options, [&] {
    return run_job(
        context, options, {"delta apply", ""}, job,
        [&](const ckpt::Checkpoint& file, const std::string& at) {
          ckpt::Checkpoint base = file;
          base.root = ckpt::Value(ckpt::value_at(file.root, at));
          std::vector<ckpt::Checkpoint> deltas = open_deltas(options, options.deltas);
          ProgressBar bar(core::printable(options.base), !options.quiet);
          Edit edit;
          ckpt::DeltaOptions how = delta_options(options, bar);
          how.check_target = !options.dry_run;  // with nothing written, the base is looked at
          edit.checkpoint = ckpt::apply_deltas(base, deltas, how);
          edit.summary = count_of(deltas.size(), "delta") + " applied";
          edit.json = facts_writer(deltas.back());
          return edit;
        },
        json);
  });
  if (options.json) context.out.print(json.text() + "\n");
  return code;
}

/// One delta of a chain, and whether it follows on what comes before it.
struct Link {
  std::string file;
  ckpt::DeltaFacts facts;
  std::uint64_t bytes = 0;
  bool fits = false;
};

std::vector<Link> links_of(const ChainOptions& options, ckpt::Hash128 before) {
  std::vector<Link> links;
  for (const std::string& file : options.deltas) {
    ckpt::Report ignored;
    ckpt::DeltaFacts facts = ckpt::delta_facts(ckpt::open_delta(file, options.look(ignored)));
    links.push_back({file, facts, std::filesystem::file_size(file), facts.base == before});
    before = facts.target;
  }
  return links;
}

void print_links(Context& context, const ChainOptions& options, const std::vector<Link>& links, ckpt::Hash128 before) {
  context.out.print(ckpt::to_hex(before) + "  " + core::printable(options.base) + "\n");
  for (const Link& link : links) {
    context.out.print(ckpt::to_hex(link.facts.target) + "  " + core::printable(link.file) + "  " +
                      counts_text(link.facts) + ", " + core::format_size(link.bytes) + "\n");
    if (!link.fits) {
      context.out.print("  does not follow: it was made for " + ckpt::to_hex(link.facts.base) + ", not for " +
                        ckpt::to_hex(before) + "\n");
    }
    before = link.facts.target;
  }
}

int chain(Context& context, const ChainOptions& options) {
  ckpt::Report report;
  ckpt::Checkpoint base = open_base(options, options.base, report);
  ProgressBar bar(core::printable(options.base), !options.quiet);
  const ckpt::Hash128 first = ckpt::digest(base.root, {.threads = options.threads, .progress = bar.hook()}).model;
  std::vector<Link> links = links_of(options, first);
  const bool holds = std::all_of(links.begin(), links.end(), [](const Link& link) { return link.fits; });
  say_report(options, parse_address(options.base).path, report);
  if (options.json) {
    ckpt::JsonWriter json(2);
    json.begin_object().key("base").value(options.base).key("digest").value(ckpt::to_hex(first));
    json.key("holds").value(holds).key("links").begin_array();
    for (const Link& link : links) {
      json.begin_object().key("file").value(link.file).key("fits").value(link.fits).key("bytes").value(link.bytes);
      write_facts(json, link.facts);
      json.end_object();
    }
    json.end_array();
    write_report(json, report);
    json.end_object();
    context.out.print(json.text() + "\n");
  } else {
    print_links(context, options, links, first);
  }
  return holds ? kDone : kNo;
}

void add_make(CommandSpec delta, Command& chosen) {
  CommandSpec command = add_command(delta, "make",
                                    "ckpt delta make epoch8.pth epoch9.pth -o epoch9.delta.ckpt\n  ckpt delta make "
                                    "best.pth::model net.safetensors -o net.delta.ckpt",
                                    "Write what turns BASE into FILE: tensors of the same name, type and shape as "
                                    "their differences, compressed; all else as it is.");
  auto options = std::make_shared<MakeOptions>();
  command.add_option("BASE", options->base, "earlier checkpoint").required().type_name("");
  command.add_option("FILE", options->target, "later checkpoint").required().type_name("");
  command.add_option("-o,--output", options->output, "output, a .ckpt file").required().type_name("OUT");
  add_write_options(command, *options);
  command.remove_options({"--in-place", "--follow"});
  command.callback([&chosen, options] { chosen = [options](Context& context) { return make(context, *options); }; });
}

void add_apply(CommandSpec delta, Command& chosen) {
  CommandSpec command = add_command(
      delta, "apply",
      "ckpt delta apply epoch8.pth epoch9.delta.ckpt -o epoch9.pth\n"
      "  ckpt delta apply epoch8.pth epoch9.delta.ckpt epoch10.delta.ckpt -o epoch10.safetensors",
      "Write the checkpoint that a delta, or a chain of them, makes of BASE, in the format that the extension of OUT "
      "names. A base with another digest than the delta was made for is refused, and so is a result with another "
      "one than it names.");
  auto options = std::make_shared<ApplyOptions>();
  command.add_option("BASE", options->base, "checkpoint that the first delta was made for").required().type_name("");
  command.add_option("DELTA", options->deltas, "one delta or more, in order").required().type_name("");
  command.add_option("-o,--output", options->output, "output; its extension says the format")
      .required()
      .type_name("OUT");
  add_write_options(command, *options);
  command.remove_options({"--in-place", "--follow"});
  command.callback([&chosen, options] { chosen = [options](Context& context) { return apply(context, *options); }; });
}

void add_chain(CommandSpec delta, Command& chosen) {
  CommandSpec command = add_command(delta, "chain",
                                    "ckpt delta chain epoch8.pth epoch9.delta.ckpt epoch10.delta.ckpt\n  ckpt delta "
                                    "chain --json epoch8.pth epoch9.delta.ckpt",
                                    "Say whether each delta follows on the one before it, the first on BASE. Exit code "
                                    "1 when one does not.");
  auto options = std::make_shared<ChainOptions>();
  command.add_option("BASE", options->base, "checkpoint that the first delta was made for").required().type_name("");
  command.add_option("DELTA", options->deltas, "deltas, in order").required().type_name("");
  add_read_options(command, *options);
  command.callback([&chosen, options] { chosen = [options](Context& context) { return chain(context, *options); }; });
}

}  // namespace

void add_delta(CommandSpec app, Command& chosen) {
  CommandSpec delta = add_command(app, "delta",
                                  "ckpt delta make epoch8.pth epoch9.pth -o epoch9.delta.ckpt\n"
                                  "  ckpt delta apply epoch8.pth epoch9.delta.ckpt -o epoch9.pth",
                                  "Keep a later checkpoint as its difference to an earlier one, bit for bit.");
  delta.require_subcommand();
  add_make(delta, chosen);
  add_apply(delta, chosen);
  add_chain(delta, chosen);
}

}  // namespace cli
