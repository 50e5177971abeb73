// ckpt zoo verify: whether a file holds a known model.

#include <algorithm>

#include "libckpt/analyze/key_rest.h"
#include "libckpt/analyze/pasteable.h"
#include "libckpt/checkpoint.h"
#include "libckpt/io/json.h"
#include "libckpt/open_save.h"
#include "libcore/base/text.h"
#include "tools/ckpt/commands/commands.h"
#include "tools/ckpt/commands/why_target.h"
#include "tools/ckpt/commands/zoo_verify.h"
#include "tools/ckpt/exit_code.h"
#include "tools/ckpt/line/address.h"

namespace cli {
namespace {

struct Options : ReadOptions {
  std::string name;
  std::string file;
};

/// What a file says beside its keys, in words.
struct Findings {
  ckpt::KeyDifferences keys;          ///< without the missing names of tensors that are there under another
  std::vector<std::string> notes;     ///< no differences
  std::vector<std::string> versions;  ///< of modules, that differ
  std::vector<std::string> unequal;   ///< names of one tensor whose copies in the file differ
  bool knows_versions = false;
  bool good() const { return keys.none() && versions.empty() && unequal.empty(); }
};

bool same_bytes(const ckpt::Entry& a, const ckpt::Entry& b) {
  constexpr std::uint64_t kPiece = 1 << 20;
  if (a.byte_size() != b.byte_size()) return false;
  core::ByteVector left(kPiece), right(kPiece);
  for (std::uint64_t at = 0; at < a.byte_size(); at += kPiece) {
    const auto size = static_cast<std::size_t>(std::min(kPiece, a.byte_size() - at));
    a.bytes->read(at, {left.data(), size});
    b.bytes->read(at, {right.data(), size});
    if (!std::equal(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(size), right.begin())) return false;
  }
  a.bytes->require_unchanged();
  b.bytes->require_unchanged();
  return true;
}

const ckpt::Entry* entry_of(const ckpt::Dict& dict, const std::string& key) {
  for (const auto& [name, value] : dict.items) {
    if (name.is(ckpt::Value::Kind::text) && name.as_text() == key && value.is(ckpt::Value::Kind::tensor)) {
      return &value.as_entry();
    }
  }
  return nullptr;
}

/// Whether copies of what is one tensor in the model agree.
void compare_copies(const ckpt::Dict& dict, const std::vector<std::vector<std::string>>& separate, Findings& findings) {
  for (const std::vector<std::string>& names : separate) {
    const ckpt::Entry* first = entry_of(dict, names.front());
    bool alike = true;
    for (const std::string& name : names) {
      const ckpt::Entry* other = entry_of(dict, name);
      alike = alike && first != nullptr && other != nullptr && same_bytes(*first, *other);
    }
    const std::string all = core::join(names, ", ");
    if (alike) {
      findings.notes.push_back(all + ": one tensor in the model, written several times with the same values");
    } else {
      findings.unequal.push_back(all + ": one tensor in the model, several with different values in the file");
    }
  }
}

Findings compare(const ckpt::Checkpoint& checkpoint, const ckpt::KeyList& have, const ckpt::KeyList& model) {
  const ckpt::Value& where = have.at.empty() ? checkpoint.root : ckpt::value_at(checkpoint.root, have.at);
  const ckpt::Dict& dict = where.as_dict();
  const ckpt::TieDifferences ties = ckpt::compare_ties(have, model);
  Findings findings;
  findings.keys = ckpt::compare_keys(have, model);
  findings.versions = ckpt::version_differences(dict, model);
  findings.knows_versions = !ckpt::module_versions(dict).empty();
  for (const auto& [name, there] : ties.unwritten) {
    std::erase(findings.keys.missing, name);
    findings.notes.push_back(name + ": not written, as it is " + there);
  }
  compare_copies(dict, ties.separate, findings);
  return findings;
}

void print_list(Output& out, std::string_view what, const std::vector<std::string>& lines) {
  for (const std::string& line : lines) out.print("  " + std::string(what) + ": " + core::printable(line) + "\n");
}

void write_list(ckpt::JsonWriter& json, std::string_view key, const std::vector<std::string>& lines) {
  json.key(key).begin_array();
  for (const std::string& line : lines) json.value(line);
  json.end_array();
}

/// "versions and ties": what was compared beside keys, shapes and dtypes.
std::string compared_rest(const Findings& findings, const ckpt::KeyList& model) {
  std::string rest = findings.knows_versions ? ", module versions" : "";
  if (!model.ties.empty()) rest += ", ties";
  return rest;
}

/// "missing keys (2), 1 module with another version": what was found, and nothing of the rest.
std::string count_all(const Findings& findings) {
  const ckpt::KeyDifferences& d = findings.keys;
  std::vector<std::string> parts;
  auto add = [&](std::size_t count, const std::string& text) {
    if (count > 0) parts.push_back(text);
  };
  add(d.missing.size(), "missing keys (" + core::format_count(d.missing.size()) + ")");
  add(d.unexpected.size(), "unexpected keys (" + core::format_count(d.unexpected.size()) + ")");
  add(d.shapes.size(), count_of(d.shapes.size(), "key") + " with another shape");
  add(d.dtypes.size(), count_of(d.dtypes.size(), "key") + " with another dtype");
  add(findings.versions.size(), count_of(findings.versions.size(), "module") + " with another version");
  add(findings.unequal.size(), count_of(findings.unequal.size(), "tied tensor") + " with different values");
  return core::join(parts, ", ");
}

void print_findings(Output& out, const Options& options, const ckpt::KeyList& model, const Findings& findings) {
  const std::string start = core::printable(options.file) + ": ";
  const ckpt::KeyDifferences& d = findings.keys;
  if (findings.good()) {
    out.print(start);
    out.print_good("matches " + model.name);
    out.print(": all " + core::format_count(model.keys.size()) + " keys, shapes and dtypes" +
              compared_rest(findings, model) + (d.order ? ", in another order" : "") + "\n");
  } else {
    out.print(start);
    out.print_bad("does not match " + model.name);
    out.print(": " + count_all(findings) + "\n");
  }
  print_list(out, "missing", d.missing);
  print_list(out, "unexpected", d.unexpected);
  print_list(out, "shape", d.shapes);
  print_list(out, "dtype", d.dtypes);
  print_list(out, "version", findings.versions);
  print_list(out, "tie", findings.unequal);
  print_list(out, "note", findings.notes);
  if (!findings.knows_versions) out.print("  note: the file has no module versions\n");
  if (d.none()) return;
  out.print("see: " + ckpt::ShellCommand("ckpt").word("why").file(options.file).option("--for", model.name).text() +
            "\n");
}

void write_findings(Output& out, const Options& options, const ckpt::KeyList& model, const Findings& findings) {
  const ckpt::KeyDifferences& d = findings.keys;
  ckpt::JsonWriter json(2);
  json.begin_object();
  json.key("path").value(options.file);
  json.key("model").value(model.name);
  json.key("good").value(findings.good());
  json.key("same_order").value(!d.order);
  json.key("knows_versions").value(findings.knows_versions);
  write_list(json, "missing", d.missing);
  write_list(json, "unexpected", d.unexpected);
  write_list(json, "shapes", d.shapes);
  write_list(json, "dtypes", d.dtypes);
  write_list(json, "versions", findings.versions);
  write_list(json, "ties", findings.unequal);
  write_list(json, "notes", findings.notes);
  json.end_object();
  out.print(json.text() + "\n");
}

int run_verify(Context& context, const Options& options) {
  const ckpt::KeyList model = known_model(options.name);
  const Address address = parse_address(options.file);
  ckpt::Report report;
  const ckpt::Checkpoint checkpoint = ckpt::open(address.path, options.look(report));
  const Findings findings = compare(checkpoint, ckpt::key_list_of(checkpoint, options.file, address.at), model);
  say_report(options, address.path, report);
  if (options.json) {
    write_findings(context.out, options, model, findings);
  } else if (!options.quiet) {
    print_findings(context.out, options, model, findings);
  }
  return findings.good() ? kDone : kNo;
}

}  // namespace

void add_zoo_verify(CommandSpec zoo, Command& chosen) {
  auto options = std::make_shared<Options>();
  CommandSpec verify = add_command(
      zoo, "verify", "ckpt zoo verify resnet50 resnet50.pth\n  ckpt zoo verify gpt2 model.safetensors --json",
      "Compare a file with a model: keys, shapes, dtypes, module versions, shared tensors; "
      "exit 1 when they differ.");
  verify.add_option("NAME", options->name, "model").required().type_name("");
  verify.add_option("FILE", options->file, "checkpoint; FILE::path means the dict of that name inside")
      .required()
      .type_name("");
  add_read_options(verify, *options);
  verify.callback(
      [&chosen, options] { chosen = [options](Context& context) { return run_verify(context, *options); }; });
}

}  // namespace cli
