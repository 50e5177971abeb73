#include "tests/libckpt/format/torch_golden.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "libckpt/ckpt.h"
#include "libckpt/format/in_place.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/torch_facts.h"
#include "tests/support/golden.h"
#include "tests/support/golden_checkpoint.h"
#include "tests/support/sha256.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::Checkpoint;
using ckpt::OpenOptions;
using test::Manifest;
using test::TreeFacts;

OpenOptions with_foreign_objects() {
  OpenOptions options;
  options.foreign_objects = true;
  return options;
}

/// "" or the first line that differs. Long manifests list only the first and last twenty values.
std::string compare_lines(const char* what, const std::vector<std::string>& got, const std::vector<std::string>& want) {
  bool cut = want.size() == 40 && got.size() > 40;
  if (!cut && got.size() != want.size()) {
    return std::to_string(got.size()) + " " + what + " where " + std::to_string(want.size()) + " are";
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::string& mine = cut && i >= 20 ? got[got.size() - want.size() + i] : got[i];
    if (mine != want[i]) return std::string(what) + ": " + mine + " where " + want[i] + " is";
  }
  return "";
}

/// Tensors of one group share one storage; all others have one of their own.
std::string compare_ties(const Manifest& manifest, const TreeFacts& facts) {
  std::map<std::string, const void*> groups;
  std::set<const void*> seen;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const test::ManifestTensor& want = manifest.tensors[i];
    if (!facts.tensors[i].value.is(ckpt::Value::Kind::tensor)) continue;
    const void* storage = ckpt::storage_identity(facts.tensors[i].value.as_entry());
    if (storage == nullptr || want.nbytes == 0) continue;
    auto [group, fresh] = groups.try_emplace(want.tied.empty() ? "alone " + std::to_string(i) : want.tied, storage);
    if (group->second != storage) return want.name + " is not tied to its group";
    if (fresh && !seen.insert(storage).second) return want.name + " is tied to another group";
  }
  return "";
}

/// Manifests of models in several files and of programs say less of each tensor, and of sharded ones no containers.
bool says_less(const Manifest& manifest) {
  return manifest.format == "dcp" || manifest.format == "torch-sharded" || manifest.format.starts_with("torchscript");
}

std::string compare_several(const Manifest& manifest, const Checkpoint& checkpoint) {
  std::string difference = test::compare_tensors(manifest, checkpoint);
  TreeFacts got = test::our_facts(checkpoint.root);
  TreeFacts want = test::golden_facts(manifest);
  if (want.containers.empty()) return difference;
  if (difference.empty()) difference = compare_lines("containers", got.containers, want.containers);
  return difference.empty() ? compare_lines("values", got.values, want.values) : difference;
}

std::string compare_content(const Manifest& manifest, const Checkpoint& checkpoint) {
  if (!manifest.has_tensors) return "";
  if (says_less(manifest)) return compare_several(manifest, checkpoint);
  TreeFacts got = test::our_facts(checkpoint.root);
  TreeFacts want = test::golden_facts(manifest);
  if (got.tensors.size() != manifest.tensors.size()) return std::to_string(got.tensors.size()) + " tensors";
  for (std::size_t i = 0; i < got.tensors.size(); ++i) {
    const test::ManifestTensor& tensor = manifest.tensors[i];
    if (got.tensors[i].path != test::join_path(tensor.path)) return "order: " + got.tensors[i].path;
    std::string difference = test::compare_tensor(tensor, got.tensors[i].value);
    if (!difference.empty()) return tensor.name + ": " + difference;
  }
  std::string difference = compare_ties(manifest, got);
  if (difference.empty()) difference = compare_lines("containers", got.containers, want.containers);
  if (difference.empty()) difference = compare_lines("values", got.values, want.values);
  if (difference.empty()) difference = compare_lines("versions", got.metadata, want.metadata);
  return difference;
}

/// The manifest of the same content, where a broken file only has another name.
Manifest content_of(const Manifest& manifest) {
  return manifest.same_as.empty() ? manifest : test::load_manifest(manifest.same_as);
}

std::string check_refusal(const Manifest& manifest, const core::Error& error) {
  std::string text = error.what();
  if (text.find('\n') != std::string::npos) return "the message has more than one line";
  if (!manifest.action.starts_with("refuse")) return "";
  for (const std::string& global : manifest.globals) {
    std::string name = global.substr(global.find(' ') + 1);
    if (text.find(name) == std::string::npos) return "the message does not name " + global + ": " + text;
  }
  return "";
}

/// The name that the reader gives is the manifest's, but for the one container of both kinds of programs.
std::string check_format(const Manifest& manifest, const Checkpoint& checkpoint) {
  std::string want = manifest.format == "torchscript-lite" ? "torchscript" : manifest.format;
  return checkpoint.format == want ? "" : "read as " + checkpoint.format;
}

/// A pickled module gives the tensors that the manifest calls recoverable.
std::string check_recoverable(const Manifest& manifest) {
  std::vector<test::ManifestTensor> wanted = test::load_recoverable(manifest);
  if (wanted.empty()) return "";
  // As in state_dict(): parameters are parameters, and the dict that holds the module stands before its keys.
  std::vector<ckpt::NamedEntry> entries = ckpt::list_entries(ckpt::open(manifest.file, with_foreign_objects()).root);
  if (entries.size() != wanted.size()) return std::to_string(entries.size()) + " tensors recovered";
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const ckpt::Entry& entry = *entries[i].entry;
    if (!entries[i].name.ends_with(wanted[i].name)) return "recovered " + entries[i].name;
    bool same = core::name(entry.dtype) == wanted[i].dtype && entry.shape.to_vector() == wanted[i].shape &&
                test::sha256(ckpt::read_all(*entry.bytes)) == wanted[i].sha256;
    if (!same) return wanted[i].name + ": recovered otherwise";
  }
  return "";
}

bool may_refuse(const Manifest& manifest) {
  return manifest.action != "load";
}

/// Opens as the action says; "" when that was right. `opened` gets the checkpoint, where there is one.
std::string check_open(const Manifest& manifest, std::optional<Checkpoint>& opened) {
  try {
    opened = ckpt::open(manifest.file);
    if (std::string why = check_format(manifest, *opened); !why.empty()) return why;
  } catch (const core::Error& error) {
    if (!may_refuse(manifest)) return error.what();
    if (std::string why = check_refusal(manifest, error); !why.empty()) return why;
    if (manifest.action != "load-report") return "";
    opened = ckpt::open(manifest.file, with_foreign_objects());
  }
  if (manifest.action == "refuse") return "it was read, although it must be refused";
  return compare_content(content_of(manifest), *opened);
}

std::string check_verify(const Manifest& manifest) {
  bool damaged = false;
  try {
    damaged = !ckpt::verify(manifest.file).damage.empty();
  } catch (const core::Error&) {
    damaged = true;
  }
  bool must_fail = manifest.verify_exit.has_value() || manifest.action == "refuse";
  bool must_pass = manifest.action == "load" && manifest.warn.empty();
  if (must_fail && !damaged) return "verify finds nothing";
  return must_pass && damaged ? "verify finds damage" : "";
}

/// The scanner never clears what must be refused, and clears what loads without a remark.
std::string check_scan(const Manifest& manifest) {
  if (std::filesystem::is_directory(manifest.file) && manifest.action == "refuse") return "";  // refused, not scanned
  ckpt::ScanResult result = ckpt::scan(manifest.file);
  if (manifest.action == "refuse" && result.clean()) return "scan clears it";
  bool must_pass = manifest.action == "load" && manifest.warn.empty() && manifest.id.find("/ext_") == std::string::npos;
  if (!must_pass || result.clean()) return "";
  const auto& why = result.findings.empty() ? result.unread : result.findings;
  return "scan finds: " + why.front().subject + ": " + why.front().text;
}

/// Lazily loaded and saved over itself: the content stays, and the second time the bytes do too.
std::string check_rewrite(const Manifest& manifest) {
  test::TempDir dir;
  std::filesystem::path path = dir.path() / "copy.pth";
  OpenOptions options = with_foreign_objects();
  options.lenient = manifest.action == "load-or-report";  // a damaged tensor is written only then
  ckpt::SaveOptions save;
  save.format = "torch-zip";
  save.durable = false;
  if (says_less(manifest)) {
    ckpt::save(ckpt::open(manifest.file, options), path, save);
  } else {
    test::write_file(path, test::read_file(manifest.file));
    ckpt::save(ckpt::open(path, options), path, save);
  }
  std::string first = test::read_file(path);
  if (std::string why = compare_content(content_of(manifest), ckpt::open(path, options)); !why.empty()) {
    return "rewritten: " + why;
  }
  ckpt::save(ckpt::open(path, options), path, save);
  return first == test::read_file(path) ? "" : "rewritten twice, its bytes changed";
}

/// An archive as PyTorch writes it that holds a state dict.
bool may_append(const Manifest& manifest) {
  return manifest.format == "torch-zip" && manifest.action == "load" && manifest.warn.empty();
}

/// Edited where it lies, the old bytes stay, what is read is what a copy gives, and undone all is as before. "" also
/// for a file that this edit does not concern.
std::string check_edit(const Manifest& manifest, int& appended) {
  test::TempDir dir;
  std::filesystem::path path = dir.path() / "net.pth";
  const std::string before = test::read_file(manifest.file);
  test::write_file(path, before);
  Checkpoint edited;
  try {
    edited = ckpt::add_prefix(ckpt::open(path), {.prefix = "module."});
  } catch (const core::Error&) {
    return "";  // it has no state dict
  }
  ckpt::Report report;
  ckpt::save(edited, dir.path() / "copy.pth", {.durable = false});
  ckpt::save(edited, path, {.in_place = true, .report = &report});
  if (report.rung != "append") return "";
  ++appended;
  if (!test::read_file(path).starts_with(before)) return "edited in place, its old bytes changed";
  if (!ckpt::verify(path).damage.empty()) return "edited in place, verify finds damage";
  ckpt::save(ckpt::open(path), dir.path() / "again.pth", {.durable = false});
  bool same = test::read_file(dir.path() / "again.pth") == test::read_file(dir.path() / "copy.pth");
  if (!same) return "edited in place, it holds something else than an edited copy";
  ckpt::undo_edit(path);
  return test::read_file(path) == before ? "" : "an edit in place was not taken back";
}

std::string check_case(const Manifest& manifest, int& appended) {
  std::optional<Checkpoint> opened;
  std::string why = check_open(manifest, opened);
  if (why.empty()) why = check_verify(manifest);
  if (why.empty()) why = check_scan(manifest);
  if (why.empty()) why = check_recoverable(manifest);
  bool huge = opened && manifest.id.find("bomb") != std::string::npos;
  if (why.empty() && opened && !huge && manifest.action.starts_with("load")) why = check_rewrite(manifest);
  if (why.empty() && may_append(manifest)) why = check_edit(manifest, appended);
  return why;
}

}  // namespace

int test::run_torch_golden(const char* name, const std::vector<std::string>& formats) {
  test::GoldenRun run(name);
  bool any = false;
  int appended = 0;
  for (const char* folder : {"torch_2.15", "torch_1.13", "safetensors", "dcp", "broken"}) {
    for (const Manifest& manifest : test::load_manifests(folder)) {
      if (std::find(formats.begin(), formats.end(), manifest.format) == formats.end()) continue;
      any = true;
      try {
        std::string why = check_case(manifest, appended);
        run.check(manifest.id, why.empty(), why);
      } catch (const std::exception& error) {
        run.fail(manifest.id, error.what());
      }
    }
  }
  if (!any) return 77;
  std::cout << "edited in place: " << appended << "\n";
  return run.finish();
}
