// Every example that a --help shows is run in a shell, beside files of the names in it: what a new user copies works.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <regex>

#include "libckpt/ckpt.h"
#include "libckpt/format/parts/parts_index.h"
#include "libckpt/io/json.h"
#include "libckpt/run.h"
#include "tests/cli/files.h"
#include "tests/libckpt/transform/views.h"

namespace fs = std::filesystem;
using ckpt::Value;
using namespace test;

namespace {

struct Example {
  std::string command;  ///< "zoo keys"
  std::string line;     ///< "ckpt zoo keys resnet50"
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string help_of(const TempDir& dir, std::vector<std::string> command) {
  command.emplace_back("--help");
  Outcome outcome = run_ckpt(dir.path(), command);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.out;
}

/// The names that a help lists behind its options, by groups.
std::vector<std::string> commands_in(const std::string& help) {
  std::vector<std::string> out;
  bool listed = false;
  const std::regex name("^  ([a-z][a-z-]*)(,| |$).*");
  for (const std::string& line : lines_of(help)) {
    if (!line.starts_with(" ")) listed = line.ends_with(":") && line != "Options:" && line != "Examples:";
    std::smatch found;
    if (listed && std::regex_match(line, found, name)) out.push_back(found[1]);
  }
  return out;
}

std::vector<std::string> examples_in(const std::string& help) {
  std::vector<std::string> out;
  for (const std::string& line : lines_of(help)) {
    if (line.empty()) break;
    if (line.starts_with("  ")) out.push_back(line.substr(2));
  }
  return out;
}

/// Of the program and of each command, nested ones too. A command shows two at least.
std::vector<Example> all_examples() {
  TempDir dir;
  std::vector<Example> out;
  auto take = [&](const std::string& command, const std::string& help) {
    std::vector<std::string> lines = examples_in(help);
    EXPECT_GE(lines.size(), 2U) << "ckpt " << command << " --help";
    for (const std::string& line : lines) out.push_back({command, line});
  };
  std::string top = help_of(dir, {});
  take("", top);
  std::vector<std::string> commands = commands_in(top);
  EXPECT_GT(commands.size(), 30U);
  for (const std::string& command : commands) {
    std::string help = help_of(dir, {command});
    take(command, help);
    if (help.find("\nCommands:\n") == std::string::npos) continue;
    for (const std::string& below : commands_in(help)) take(command + " " + below, help_of(dir, {command, below}));
  }
  return out;
}

Value matrix(core::Shape shape, float seed, const std::string& location = "cpu") {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = seed + static_cast<float>(i % 97) * 0.01F;
  ckpt::Entry entry = float_entry(values, location);
  entry.shape = std::move(shape);
  return Value::tensor(std::make_shared<const ckpt::Entry>(std::move(entry)));
}

/// A model with what examples ask for: layers to rename, norms with counters, a head, two devices.
Value net(float seed, const std::string& prefix = "") {
  return dict({{prefix + "encoder.layer0.weight", matrix({4, 4}, seed)},
               {prefix + "encoder.layer1.weight", matrix({4, 4}, seed + 1, "cuda:1")},
               {prefix + "bn1.weight", matrix({4}, seed + 2)},
               {prefix + "bn1.running_mean", matrix({4}, seed + 3)},
               {prefix + "bn1.num_batches_tracked", matrix({1}, 3)},
               {prefix + "fc.weight", matrix({10, 4}, seed + 4)},
               {prefix + "lm_head.weight", matrix({2, 4}, seed + 5)}});
}

/// AdamW's state of the five parameters of net().
Value optimizer() {
  ckpt::Dict state;
  Value::List params;
  const std::vector<core::Shape> shapes = {{4, 4}, {4, 4}, {4}, {10, 4}, {2, 4}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    auto index = Value::integer(static_cast<std::int64_t>(i));
    params.push_back(index);
    state.items.emplace_back(index, dict({{"step", matrix({1}, 2)},
                                          {"exp_avg", matrix(shapes[i], 0.1F)},
                                          {"exp_avg_sq", matrix(shapes[i], 0.2F)}}));
  }
  Value group = dict({{"lr", Value::real(0.1)}, {"params", Value::list(std::move(params))}});
  return dict({{"state", Value::dict(std::move(state))}, {"param_groups", Value::list({group})}});
}

Value training(const Value& model) {
  return dict({{"epoch", Value::integer(3)}, {"model", model}, {"optimizer", optimizer()}});
}

/// The state dict of a DataParallel of a known model; each tensor is one number seen many times, so the file is small.
Value wrapped(const TempDir& dir, const std::string& model) {
  ckpt::JsonDocument keys = ckpt::JsonDocument::parse(run_ckpt(dir.path(), {"zoo", "keys", model, "--json"}).out);
  ckpt::Dict out;
  for (const ckpt::JsonView& key : keys.root().at("tensors").items()) {
    core::Shape shape;
    core::Shape strides;
    for (const ckpt::JsonView& size : key.at("shape").items()) {
      shape.push_back(size.as_integer());
      strides.push_back(0);
    }
    out.items.emplace_back(Value::text("module." + std::string(key.at("name").as_text())),
                           view(floats_storage(1), shape, strides));
  }
  return Value::dict(std::move(out));
}

void make_checkpoints(const fs::path& at) {
  auto write = [&](const std::string& name, const Value& root) { write_checkpoint(at / name, root); };
  for (const char* name :
       {"net.pth", "net.safetensors", "net.ckpt", "epoch8.pth", "epoch9.pth", "epoch10.pth", "a.safetensors",
        "b.safetensors", "old.pth", "new.safetensors", "best.safetensors", "model.safetensors", "downloads/a.pth",
        "runs/a.pth", "a.pth", "b.pth", "base.pth", "base.safetensors", "base/model.safetensors"}) {
    write(name, net(1));
  }
  for (const char* name : {"step-000001200.ckpt", "step-000001600.ckpt"}) {
    ckpt::save(ckpt::with_metrics(checkpoint(net(1)), {{"val_acc", 0.9}}), at / "runs" / name, {.durable = false});
  }
  write("tuned.safetensors", net(2));
  write("new.pth", net(1, "backbone."));
  write("llm.safetensors", dict({{"output.weight", matrix({2, 32}, 1)}, {"blk.0.weight", matrix({2, 32}, 2)}}));
  write("model.gguf", dict({{"output.weight", matrix({2, 256}, 1)}, {"blk.0.weight", matrix({2, 256}, 2)}}));
  write("torchvision.pth", net(1));
  write("vgg16.weights.h5", dict({{"layers.conv2d.vars.0", matrix({3, 3, 3, 2}, 1)}}));
  write("mine.weights.h5", dict({{"layers.dense.vars.0", matrix({3, 2}, 1)}}));
  write("timm.safetensors", net(1, "model."));
  write("best.pth", training(net(1)));
  write("last.pth", training(net(2)));
  write("optim.pth", optimizer());
  write("vit.pth", dict({{"cls_token", matrix({1, 1, 4}, 1)},
                         {"blocks.0.attn.qkv.weight", matrix({12, 4}, 6)},
                         {"blocks.0.attn.qkv.bias", matrix({12}, 7)},
                         {"norm.weight", matrix({4}, 2)},
                         {"norm.bias", matrix({4}, 3)},
                         {"head.weight", matrix({2, 4}, 4)},
                         {"head.bias", matrix({2}, 5)}}));
}

/// An adapter of net() as PEFT saves it.
void make_adapter(const fs::path& folder) {
  write_file(folder / "adapter_config.json", R"({"peft_type": "LORA", "lora_alpha": 16})");
  write_checkpoint(folder / "adapter_model.safetensors",
                   dict({{"base_model.model.fc.lora_A.weight", matrix({2, 4}, 0.1F)},
                         {"base_model.model.fc.lora_B.weight", matrix({10, 2}, 0.2F)}}));
}

/// A model of one layer as Hugging Face has it.
void make_gpt2(const fs::path& folder) {
  write_file(folder / "config.json", R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 4, "n_layer": 1, "n_head": 2,
                                         "n_positions": 4})");
  std::vector<std::pair<std::string, Value>> all = {{"wte.weight", matrix({5, 4}, 1)},
                                                    {"wpe.weight", matrix({4, 4}, 2)}};
  const std::pair<const char*, core::Shape> parts[] = {{"h.0.attn.c_attn.", {4, 12}},
                                                       {"h.0.attn.c_proj.", {4, 4}},
                                                       {"h.0.mlp.c_fc.", {4, 16}},
                                                       {"h.0.mlp.c_proj.", {16, 4}},
                                                       {"h.0.ln_1.", {4}},
                                                       {"h.0.ln_2.", {4}},
                                                       {"ln_f.", {4}}};
  for (const auto& [name, shape] : parts) {
    all.emplace_back(std::string(name) + "weight", matrix(shape, 3));
    all.emplace_back(std::string(name) + "bias", matrix({shape[shape.size() - 1]}, 4));
  }
  write_checkpoint(folder / "model.safetensors", dict(std::move(all)));
}

/// What a run of one rank saves in the native layout.
void make_parts(const fs::path& folder) {
  fs::create_directories(folder);
  const std::string file = ckpt::detail::native_part_name(0);
  ckpt::Checkpoint part;
  part.root = dict({{"w", matrix({4, 2}, 1)}});
  part.metadata = {{std::string(ckpt::detail::kSaveIdKey), "id"}};
  ckpt::save(part, folder / file, {.durable = false});
  ckpt::detail::PartsIndex index{.save_id = "id", .parts = {{file, fs::file_size(folder / file), {}}}, .items = {}};
  ckpt::detail::IndexedItem item{.name = "w", .path = {}, .is_tensor = true, .shape = {4, 2}, .boxes = {}};
  item.boxes.push_back({{{0, 0}, {4, 2}}, 0});
  index.items.push_back(std::move(item));
  write_file(folder / ckpt::detail::kPartsIndex, ckpt::detail::encode_parts_index(index));
}

void write_script(const fs::path& path, const std::string& text) {
  write_file(path, "#!/bin/sh\n" + text);
  fs::permissions(path, fs::perms::owner_all);
}

/// The files of the examples, and programs that stand for those around them.
void make_files(const TempDir& dir) {
  const fs::path& at = dir.path();
  for (const char* folder : {"downloads", "runs", "programs", "home", "base", "adapter", "gpt2"})
    fs::create_directory(at / folder);
  make_checkpoints(at);
  make_adapter(at / "adapter");
  write_file(at / "base/config.json", "{}");
  make_gpt2(at / "gpt2");
  make_parts(at / "run/step-100");
  EXPECT_EQ(run_ckpt(at, {"convert", "gpt2", "gpt2.gguf"}).code, 0);
  EXPECT_EQ(run_ckpt(at, {"split", "--shards", "2", "net.pth", "-o", "net/"}).code, 0);
  EXPECT_EQ(run_ckpt(at, {"convert", "net.pth", "run.dcp", "--ranks", "2"}).code, 0);
  EXPECT_EQ(run_ckpt(at, {"optim", "rekey", "--to", "name", "last.pth", "-o", "named.pth"}).code, 0);
  EXPECT_EQ(run_ckpt(at, {"delta", "make", "epoch8.pth", "epoch9.pth", "-o", "epoch9.delta.ckpt"}).code, 0);
  EXPECT_EQ(run_ckpt(at, {"delta", "make", "epoch9.pth", "epoch10.pth", "-o", "epoch10.delta.ckpt"}).code, 0);
  write_checkpoint(at / "resnet50.pth", wrapped(dir, "resnet50"));
  write_file(at / "error.txt",
             "RuntimeError: Error(s) in loading state_dict for Net:\n"
             "\tMissing key(s) in state_dict: \"fc.weight\". \n\tUnexpected key(s) in state_dict: \"model\". \n");
  write_script(at / "programs/ssh", "shift; exec sh -c \"$1\"\n");
  write_script(at / "programs/man", "exec cat\n");
  write_script(at / "programs/python", "cat error.txt\n");
}

/// Those that need files of real weights or a terminal, or ckpt-run where it was not built.
bool is_skipped(const Example& example) {
  if (example.command == "view" || example.line.find("vgg16.weights.h5") != std::string::npos) return true;
  if (example.command == "zoo run" || example.command == "zoo info" || example.command == "zoo export") return true;
  return example.command == "devices" && !fs::exists(built_program("ckpt-run"));
}

/// An answer of no is one that these commands give.
bool may_answer_no(const std::string& line) {
  const std::regex asks("ckpt (why|diff|scan|verify|stat|doctor|zoo verify|git status)\\b.*");
  return std::regex_search(line, asks);
}

/// Examples show the first run: what they write is not there yet.
void remove_output(const Example& example, const fs::path& folder) {
  const std::regex output("(?: -o |^ckpt convert [^ ]+ )([a-z][^ ]*)");
  std::smatch found;
  if (std::regex_search(example.line, found, output)) fs::remove_all(folder / found[1].str());
}

/// What "# writes net.f16.pth" says is there; digits of a hash are any.
void expect_written(const Example& example, const fs::path& folder) {
  const std::regex claim("# writes ([^ ]+)");
  std::smatch found;
  if (!std::regex_search(example.line, found, claim)) return;
  const std::regex name(std::regex_replace(found[1].str(), std::regex("-[0-9a-f]{8}\\b"), "-[0-9a-f]{8}"));
  std::vector<std::string> there = list_folder(folder);
  EXPECT_TRUE(std::any_of(there.begin(), there.end(), [&](const auto& file) { return std::regex_match(file, name); }))
      << example.line;
}

}  // namespace

TEST(HelpExamples, OfEveryCommandRun) {
  TempDir model;
  make_files(model);
  std::size_t run = 0;
  for (const Example& example : all_examples()) {
    if (is_skipped(example)) continue;
    TempDir dir;
    fs::copy(model.path(), dir.path(), fs::copy_options::recursive);
    bool known = example.line.find("--for resnet50") != std::string::npos;
    if (known) fs::rename(dir.path() / "resnet50.pth", dir.path() / "best.pth");
    remove_output(example, dir.path());
    RunOptions options = {.in_child = [&] {
      std::string programs = (dir.path() / "programs").string();
      ::setenv("PATH", (programs + ":" + fs::absolute(built_program("")).string() + ":/usr/bin:/bin").c_str(), 1);
      ::setenv("HOME", (dir.path() / "home").c_str(), 1);
      ::setenv("CORE_LOGICAL_DEVICES", "1", 1);  // examples of devices measure one
    }};
    if (example.command.starts_with("git")) run_program("/usr/bin/git", dir.path(), {"init", "-q", "."}, options);
    Outcome outcome = run_program("/bin/bash", dir.path(), {"-o", "pipefail", "-c", example.line}, options);
    EXPECT_GE(outcome.code, 0) << example.line;
    EXPECT_LE(outcome.code, may_answer_no(example.line) ? 1 : 0) << example.line << "\n" << outcome.err;
    expect_written(example, dir.path());
    ++run;
  }
  EXPECT_GT(run, 80U);
}
