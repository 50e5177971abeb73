#include "tests/faults/operations.h"

#include <algorithm>

#include "libckpt/format/in_place.h"
#include "libckpt/io/atomic_file.h"
#include "libckpt/io/checksum.h"
#include "libckpt/io/draft.h"
#include "libckpt/io/edit_journal.h"
#include "libckpt/io/edit_record.h"
#include "libckpt/io/hidden_names.h"
#include "libckpt/open_save.h"
#include "libckpt/run.h"
#include "libckpt/transform/map_location.h"
#include "libckpt/transform/metadata.h"
#include "libckpt/transform/prefix.h"
#include "libckpt/transform/publish.h"
#include "libckpt/transform/rules.h"
#include "tests/support/temp_dir.h"

namespace test::faults {
namespace {

namespace fs = std::filesystem;

constexpr int kTensors = 10;
constexpr const char* kIndex = "net.safetensors.index.json";
constexpr const char* kRules = "[[rule]]\nrename = \"module.block_{#i}.*\"\nto = \"module.layers.{i}.*\"\n";
const std::vector<std::string> kFormats = {"ckpt", "safetensors", "pth", "npz", "gguf", "h5"};

ckpt::Report& report_of_save() {
  static ckpt::Report report;
  return report;
}

/// One thread, so that calls come in one order.
ckpt::SaveOptions save_options(std::uint32_t shards = 0) {
  ckpt::SaveOptions options;
  options.threads = 1;
  report_of_save() = {};
  options.report = &report_of_save();
  options.shards = shards;
  if (shards > 0) options.format = "safetensors-sharded";
  return options;
}

/// The folder that so many ranks would have written.
Act save_ranks(unsigned seed, const std::string& name, std::uint32_t ranks) {
  return [=](const fs::path& folder) {
    ckpt::SaveOptions options = save_options();
    options.shards = ranks;
    ckpt::save(sample_model(seed), folder / name, options);
  };
}

Act save_as(unsigned seed, const std::string& name, std::uint32_t shards = 0, ckpt::Io io = ckpt::Io::automatic) {
  return [=](const fs::path& folder) {
    ckpt::SaveOptions options = save_options(shards);
    options.io = io;
    ckpt::save(sample_model(seed), folder / name, options);
  };
}

/// Reads a file, changes what is in it, writes it to its own name.
Act edit(const std::string& name, const std::function<ckpt::Checkpoint(const ckpt::Checkpoint&)>& change) {
  return [=](const fs::path& folder) {
    ckpt::Checkpoint old = ckpt::open(folder / name);
    ckpt::SaveOptions options = save_options();
    options.format = old.format;
    options.in_place = true;
    ckpt::save(change(old), folder / name, options);
  };
}

ckpt::Checkpoint strip(const ckpt::Checkpoint& old) {
  return ckpt::strip_prefix(old);
}

ckpt::Checkpoint rename_blocks(const ckpt::Checkpoint& old) {
  return ckpt::apply_rules(old, ckpt::parse_rules(kRules, "rules.toml"));
}

ckpt::Checkpoint rename_one(const ckpt::Checkpoint& old) {
  return ckpt::apply_rules(old,
                           ckpt::parse_rules(R"({"module.block_3.weight": "module.block_3.kernel"})", "rules.json"));
}

ckpt::Checkpoint to_gpu(const ckpt::Checkpoint& old) {
  return ckpt::map_location(old, {.to = "cuda:0"});
}

ckpt::Checkpoint set_license(const ckpt::Checkpoint& old) {
  return ckpt::edit_metadata(old, {.set = {{"license", "MIT"}}});
}

ckpt::Checkpoint training_file(unsigned seed) {
  ckpt::Dict dict;
  dict.items.emplace_back(ckpt::Value::text("epoch"), ckpt::Value::integer(seed));
  dict.items.emplace_back(ckpt::Value::text("model"), sample_model(seed).root);
  return {.root = ckpt::Value::dict(std::move(dict)), .format = "", .path = "", .metadata = {}, .detail = nullptr};
}

ckpt::Checkpoint published(const fs::path& folder) {
  return ckpt::publish(ckpt::open(folder / "last.pth")).checkpoint;
}

/// As the tool gives a published file its name: saved under a hidden one, read for its hash, moved.
void publish_by_hash(const fs::path& folder) {
  auto hashed = [&](const fs::path& draft) {
    std::string hash = ckpt::sha256_hex(*ckpt::open_file(draft));
    return folder / ("net-" + hash.substr(0, 8) + ".safetensors");
  };
  ckpt::Draft draft(folder / "net.safetensors");
  ckpt::SaveOptions options = save_options();
  options.format = "safetensors";
  options.durable = false;
  ckpt::save(published(folder), draft.path(), options);
  draft.move_to(hashed(draft.path()), {});
}

/// Collects operations; what lies in the folder before is made by real saves.
class List {
 public:
  explicit List(const fs::path& scratch) : scratch_(scratch) {}

  void add(Operation operation, const std::vector<Act>& makers) {
    write_folder(scratch_, {});
    for (const Act& make : makers) make(scratch_);
    operation.before = read_folder(scratch_);
    operations_.push_back(std::move(operation));
  }

  const fs::path& scratch() const { return scratch_; }
  std::vector<Operation> take() { return std::move(operations_); }

 private:
  fs::path scratch_;
  std::vector<Operation> operations_;
};

void add_saves(List& list) {
  for (const std::string& format : kFormats) {
    std::string file = "net." + format;
    bool quick = format == "safetensors";
    list.add({.group = "save new",
              .name = "save new ." + format,
              .head = file,
              .run = save_as(2, file),
              .next = save_as(3, file),
              .quick = quick || format == "ckpt"},
             {});
    list.add({.group = "save over",
              .name = "save over ." + format,
              .head = file,
              .run = save_as(2, file),
              .next = save_as(3, file),
              .quick = quick},
             {save_as(1, file)});
  }
}

/// Past the page cache, as large files are saved.
void add_direct_saves(List& list) {
  for (const std::string& format : kFormats) {
    std::string file = "net." + format;
    list.add({.group = "direct save over",
              .name = "direct save over ." + format,
              .head = file,
              .run = save_as(2, file, 0, ckpt::Io::direct),
              .next = save_as(3, file, 0, ckpt::Io::direct),
              .quick = format == "safetensors" || format == "ckpt"},
             {save_as(1, file)});
  }
  list.add({.group = "direct save over",
            .name = "direct save over 3 shards",
            .head = kIndex,
            .several = true,
            .run = save_as(2, kIndex, 3, ckpt::Io::direct),
            .next = save_as(3, kIndex, 3, ckpt::Io::direct),
            .quick = false},
           {save_as(1, kIndex, 4)});
}

void add_conversions(List& list) {
  for (const std::string& from : kFormats) {
    for (const std::string& to : kFormats) {
      std::string source = "in." + from;
      std::string target = "net." + to;
      list.add({.group = "convert",
                .name = "convert ." + from + " to ." + to,
                .head = target,
                .run =
                    [=](const fs::path& folder) {
                      ckpt::save(ckpt::open(folder / source), folder / target, save_options());
                    },
                .next = save_as(3, target),
                .command = {"convert", "-q", "-f", source, "-o", target},
                .quick = from == "pth" && to == "safetensors"},
               {save_as(1, source), save_as(2, target)});
    }
  }
}

void add_edits(List& list) {
  for (const std::string& format : kFormats) {
    std::string file = "net." + format;
    list.add({.group = "strip-prefix --in-place",
              .name = "strip-prefix --in-place ." + format,
              .head = file,
              .run = edit(file, strip),
              .next = save_as(3, file),
              .command = {"strip-prefix", "-q", "--in-place", file},
              .quick = format != "h5"},
             {save_as(1, file)});
    list.add({.group = "rename --in-place",
              .name = "rename --in-place ." + format,
              .head = file,
              .run = edit(file, rename_blocks),
              .next = save_as(3, file),
              .command = {"rename", "-q", "--in-place", "--rules", "rules.toml", file},
              .quick = format == "safetensors"},
             {save_as(1, file), [](const fs::path& folder) { write_file(folder / "rules.toml", kRules); }});
  }
  for (const std::string file : {"net.pth", "net.ckpt"}) {
    list.add({.group = "remap --in-place",
              .name = "remap --in-place " + file.substr(3),
              .head = file,
              .run = edit(file, to_gpu),
              .next = save_as(3, file),
              .command = {"remap", "-q", "--in-place", "--to", "cuda:0", file},
              .quick = file == "net.ckpt"},
             {save_as(1, file)});
  }
  list.add({.group = "meta --in-place",
            .name = "meta --in-place .safetensors",
            .head = "net.safetensors",
            .run = edit("net.safetensors", set_license),
            .next = save_as(3, "net.safetensors"),
            .command = {"meta", "-q", "--set", "license=MIT", "--in-place", "net.safetensors"},
            .quick = true},
           {save_as(1, "net.safetensors")});
}

/// Names that do not fit where the old ones lie: the first tensors make room.
void add_growth(List& list) {
  auto add_prefix = [](const ckpt::Checkpoint& old) { return ckpt::add_prefix(old, {.prefix = "p."}); };
  auto tight = [](const std::string& file) {
    return [=](const fs::path& folder) {
      ckpt::SaveOptions options = save_options();
      options.slack = 0;
      ckpt::save(sample_model(1), folder / file, options);
    };
  };
  for (const std::string file : {"net.safetensors", "net.gguf"}) {
    list.add({.group = "add-prefix --in-place",
              .name = "add-prefix --in-place of " + file,
              .head = file,
              .run = edit(file, add_prefix),
              .next = save_as(3, file),
              .command = {"add-prefix", "-q", "--in-place", "--prefix", "p.", file},
              .quick = true},
             {tight(file)});
  }
}

/// What makes one file of the other, from the first byte that differs to the last.
ckpt::FileEdit difference(const std::string& old, const std::string& fresh) {
  auto begin = static_cast<std::size_t>(std::ranges::mismatch(old, fresh).in1 - old.begin());
  ckpt::FileEdit changes{.old_size = old.size(), .new_size = fresh.size()};
  if (old.size() != fresh.size()) {
    changes.replace_end(begin, core::as_bytes(old).subspan(begin), core::as_bytes(fresh).subspan(begin));
    return changes;
  }
  std::size_t end = old.size();
  while (end > begin && old[end - 1] == fresh[end - 1]) --end;
  changes.replace(begin, core::as_bytes(old).subspan(begin, end - begin),
                  core::as_bytes(fresh).subspan(begin, end - begin));
  return changes;
}

/// An edit in place was interrupted with every other sector written; what takes it back is disturbed in turn.
void add_recovery(List& list, const std::string& file, const std::string& name) {
  constexpr std::size_t kSector = 512;
  write_folder(list.scratch(), {});
  save_as(1, file)(list.scratch());
  std::string old = read_file(list.scratch() / file);
  edit(file, strip)(list.scratch());
  std::string fresh = read_file(list.scratch() / file);
  core::ByteVector record = ckpt::detail::encode({.edit = difference(old, fresh)});
  std::string torn = old;
  torn.resize(std::max(old.size(), fresh.size()));
  for (std::size_t at = 0; at < torn.size(); at += 2 * kSector) torn.replace(at, kSector, fresh, at, kSector);
  auto shared = [](std::string_view text) { return std::make_shared<const std::string>(text); };
  list.add({.group = "undo",
            .name = name,
            .left_over = {{file, shared(torn)}, {ckpt::detail::journal_name(file), shared(core::as_text(record))}},
            .head = file,
            .run = [=](const fs::path& folder) { ckpt::EditJournal::settle(folder / file); },
            .next = save_as(3, file),
            .command = {"undo", "-q", file},
            .quick = true},
           {save_as(1, file)});
}

void add_shard_sets(List& list) {
  Act next = save_as(3, kIndex, 3);
  auto add = [&](const std::string& group, const std::string& name, const Act& run, const std::vector<Act>& makers,
                 const std::vector<std::string>& command) {
    list.add({.group = group,
              .name = name,
              .head = kIndex,
              .several = true,
              .run = run,
              .next = next,
              .command = command,
              .quick = true},
             makers);
  };
  add("split", "split into 3 shards", save_as(2, kIndex, 3), {save_as(2, "net.pth")},
      {"split", "-q", "--shards", "3", "net.pth", "-o", kIndex});
  add("replace a shard set", "replace 4 shards by 3", save_as(2, kIndex, 3),
      {save_as(1, kIndex, 4), save_as(2, "in.pth")}, {"split", "-q", "-f", "--shards", "3", "in.pth", "-o", kIndex});
  add("edit a shard set", "strip-prefix --in-place of 4 shards", edit(kIndex, strip), {save_as(1, kIndex, 4)},
      {"strip-prefix", "-q", "--in-place", kIndex});
  add("edit a shard set", "rename one tensor of 4 shards", edit(kIndex, rename_one), {save_as(1, kIndex, 4)},
      {"rename", "-q", "--in-place", "--glob", "module.block_3.weight=module.block_3.kernel", kIndex});
}

/// Gives a file the bytes, in one step.
Act write_whole(const std::string& name, const std::string& bytes) {
  return [=](const fs::path& folder) {
    ckpt::AtomicFile file(folder / name);
    file.write(core::as_bytes(bytes));
    file.commit();
  };
}

/// As many files as a rank of PyTorch leaves, in the folder itself.
void save_distributed(const fs::path& folder) {
  ckpt::SaveOptions options = save_options();
  options.format = "dcp";
  options.shards = 2;
  ckpt::save(sample_model(1), folder / "run.dcp", options);
  for (const auto& file : fs::directory_iterator(folder / "run.dcp")) {
    fs::rename(file.path(), folder / file.path().filename());
  }
  fs::remove(folder / "run.dcp");
}

/// Edits that replace `.metadata` alone, and what takes them back: PyTorch reads the folder, and knows no journals.
void add_distributed(List& list) {
  const std::string head = ".metadata";
  write_folder(list.scratch(), {});
  save_distributed(list.scratch());
  const std::string old = read_file(list.scratch() / head);
  edit(head, rename_blocks)(list.scratch());
  const std::string fresh = read_file(list.scratch() / head);
  edit(head, strip)(list.scratch());
  const Act next = write_whole(head, read_file(list.scratch() / head));
  list.add({.group = "edit a distributed checkpoint",
            .name = "rename --in-place of a distributed checkpoint",
            .head = head,
            .for_others = true,
            .run = edit(head, rename_blocks),
            .next = next,
            .command = {"rename", "-q", "--in-place", "--rules", "rules.toml", "."},
            .quick = true},
           {save_distributed, [](const fs::path& folder) { write_file(folder / "rules.toml", kRules); }});
  list.add({.group = "undo",
            .name = "undo of an edit of a distributed checkpoint",
            .head = head,
            .for_others = true,
            .run =
                [=](const fs::path& folder) {
                  ckpt::keep_undo_of_replaced(folder / head, difference(old, fresh));
                  ckpt::undo_edit(folder / head);
                },
            .next = next,
            .quick = true},
           {save_distributed, edit(head, rename_blocks)});
}

/// Folders that one rename puts in place.
void add_rank_folders(List& list) {
  auto add = [&](const std::string& what, const std::string& name, const std::vector<Act>& makers, bool is_quick) {
    std::vector<Act> all = makers;
    all.push_back(save_as(2, "in.pth"));
    list.add({.group = "save a folder of ranks",
              .name = what + " " + name,
              .head = name,
              .is_folder = true,
              .run = save_ranks(2, name, 2),
              .next = save_ranks(3, name, 2),
              .command = {"convert", "-q", "-f", "--ranks", "2", "in.pth", "-o", name},
              .quick = is_quick},
             all);
  };
  add("save new", "run.parts", {}, true);
  add("save over", "run.parts", {save_ranks(1, "run.parts", 3)}, true);
  add("save new", "run.dcp", {}, false);
  add("save over", "run.dcp", {save_ranks(1, "run.dcp", 3)}, true);
}

void add_publishing(List& list) {
  Act training = [](const fs::path& folder) { ckpt::save(training_file(1), folder / "last.pth", save_options()); };
  list.add(
      {.group = "publish",
       .name = "publish -o",
       .head = "net.safetensors",
       .run = [](const fs::path& folder) { ckpt::save(published(folder), folder / "net.safetensors", save_options()); },
       .next = save_as(3, "net.safetensors"),
       .command = {"publish", "-q", "-f", "last.pth", "-o", "net.safetensors"},
       .quick = true},
      {training, save_as(2, "net.safetensors")});
  write_folder(list.scratch(), {});
  training(list.scratch());
  publish_by_hash(list.scratch());
  std::string head;
  for (const auto& [name, content] : read_folder(list.scratch())) head = name == "last.pth" ? head : name;
  list.add({.group = "publish",
            .name = "publish under its hash",
            .head = head,
            .run = publish_by_hash,
            .next = publish_by_hash,
            .command = {"publish", "-q", "-f", "last.pth", "--hash-name", "-o", "net.safetensors"},
            .next_by_tool = true,
            .quick = true},
           {training});
}

std::string step_name(int step) {
  return "step-00000000" + std::to_string(step) + ".ckpt";
}

/// Saves a step of a run, then lets go of all but the last `keep`.
Act save_step(int step, std::size_t keep, bool durable = true) {
  return [=](const fs::path& folder) {
    ckpt::RunOptions options{.save = save_options(), .retention = ckpt::Retention{.keep_last = keep}};
    options.save.durable = durable;
    ckpt::Run(folder, options).save(step, sample_model(static_cast<unsigned>(step)));
  };
}

Act collect(std::size_t keep) {
  return [=](const fs::path& folder) {
    ckpt::OpenOptions options{.threads = 1};
    ckpt::carry_out(ckpt::plan_retention(ckpt::find_steps(folder), {.keep_last = keep}, options));
  };
}

/// Two tensors of ten change from step to step; the steps share the one that is large enough.
ckpt::Checkpoint sharing_model(unsigned seed) {
  ckpt::Dict dict = sample_model(1).root.as_dict();
  for (std::size_t i : {0U, 8U}) dict.items[i] = sample_model(seed).root.as_dict().items[i];
  ckpt::Checkpoint out = sample_model(1);
  out.root = ckpt::Value::dict(std::move(dict));
  return out;
}

Act save_shared_step(int step, std::size_t keep = SIZE_MAX) {
  return [=](const fs::path& folder) {
    ckpt::RunOptions options{.save = save_options(), .dedupe = true};
    if (keep < SIZE_MAX) options.retention = ckpt::Retention{.keep_last = keep};
    ckpt::Run(folder, options).save(step, sharing_model(static_cast<unsigned>(step)));
  };
}

/// Changes a bit in the middle, which is a tensor's, as a decaying disk does.
void damage_step_4(const fs::path& folder) {
  std::string bytes = read_file(folder / step_name(4));
  char& middle = bytes[bytes.size() / 2];
  middle = static_cast<char>(middle ^ 1);
  write_file(folder / step_name(4), bytes);
}

void add_collections(List& list) {
  std::vector<Act> steps;
  for (int step = 1; step <= 4; ++step) steps.push_back(save_as(static_cast<unsigned>(step), step_name(step)));
  list.add({.group = "gc",
            .name = "gc of 4 steps",
            .head = step_name(4),
            .removes = true,
            .run = collect(2),
            .next = collect(2),
            .command = {"gc", "-q", "--keep-last", "2", "."},
            .quick = true},
           steps);
  list.add({.group = "gc",
            .name = "gc after a save",
            .head = step_name(5),
            .removes = true,
            .run = save_step(5, 1),
            .next = save_step(5, 1),
            .quick = true},
           {steps[2], steps[3]});
  list.add({.group = "gc",
            .name = "gc after a save that is not durable",
            .head = step_name(5),
            .removes = true,
            .run = save_step(5, 1, false),
            .next = save_step(5, 1),
            .quick = true},
           {steps[2], steps[3]});
  steps.push_back(damage_step_4);
  list.add({.group = "gc",
            .name = "gc with a damaged newest",
            .head = step_name(3),
            .removes = true,
            .run = collect(1),
            .next = collect(1),
            .command = {"gc", "-q", "--keep-last", "1", "."},
            .quick = true},
           steps);
}

void add_shared_steps(List& list) {
  std::vector<Act> shared = {save_shared_step(1), save_shared_step(2), save_shared_step(3)};
  list.add({.group = "save a step that shares tensors",
            .name = "save a step that shares tensors",
            .head = step_name(4),
            .run = save_shared_step(4),
            .next = save_shared_step(4),
            .quick = true},
           shared);
  list.add({.group = "gc",
            .name = "gc of steps that share tensors",
            .head = step_name(3),
            .removes = true,
            .run = collect(1),
            .next = collect(1),
            .command = {"gc", "-q", "--keep-last", "1", "."},
            .quick = true},
           shared);
  list.add({.group = "gc",
            .name = "gc after a step that shares tensors",
            .head = step_name(4),
            .removes = true,
            .run = save_shared_step(4, 1),
            .next = save_shared_step(4, 1),
            .quick = true},
           shared);
}

}  // namespace

Folder start_of(const Operation& operation) {
  Folder start = operation.left_over;
  start.insert(operation.before.begin(), operation.before.end());
  return start;
}

ckpt::Checkpoint sample_model(unsigned seed) {
  constexpr int kSizes[kTensors] = {1, 7, 16, 64, 100, 256, 400, 512, 900, 1100};
  ckpt::Dict dict;
  for (int i = 0; i < kTensors; ++i) {
    core::ByteVector bytes;
    for (int at = 0; at < kSizes[i]; ++at)
      core::append_le(bytes, static_cast<float>(at * kTensors + i) / 8 + static_cast<float>(seed) * 1e5F);
    auto entry = std::make_shared<ckpt::Entry>();
    entry->dtype = core::DType::f32;
    entry->shape = core::Shape{kSizes[i]};
    entry->bytes = ckpt::memory_source(std::move(bytes));
    dict.items.emplace_back(ckpt::Value::text("module.block_" + std::to_string(i) + ".weight"),
                            ckpt::Value::tensor(std::move(entry)));
  }
  return {.root = ckpt::Value::dict(std::move(dict)), .format = "", .path = "", .metadata = {}, .detail = nullptr};
}

const ckpt::Report& last_report() {
  return report_of_save();
}

std::vector<Operation> make_operations(const fs::path& scratch) {
  List list(scratch);
  add_saves(list);
  add_direct_saves(list);
  add_conversions(list);
  add_edits(list);
  add_growth(list);
  add_recovery(list, "net.safetensors", "undo of an interrupted edit");
  add_recovery(list, "net.pth", "undo of an interrupted append");
  add_shard_sets(list);
  add_distributed(list);
  add_rank_folders(list);
  add_publishing(list);
  add_collections(list);
  add_shared_steps(list);
  return list.take();
}

}  // namespace test::faults
