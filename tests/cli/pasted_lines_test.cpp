// What the program prints is pasted into real shells and a real Python: nothing that a key, a tag or a file name holds
// is run there, and the lines do what they say. And whatever a file holds, nothing of it reaches the terminal raw.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>

#include "libckpt/analyze/pasteable.h"
#include "libckpt/io/json.h"
#include "libcore/base/error.h"
#include "libcore/base/text.h"
#include "tests/cli/files.h"
#include "tests/cli/nasty_text.h"

namespace fs = std::filesystem;
using ckpt::Value;
using testing::HasSubstr;
using testing::Not;
using namespace test;

namespace {

/// What stands for torch and safetensors: files are what the test says they are, and every load is written down.
constexpr const char* kPython = R"(
import json, os, sys, types
work = json.load(open('work.json'))
decode = lambda text: bytes.fromhex(text).decode('utf-8', 'surrogatepass')
here = {}
def load(path, map_location=None):
    found = here[os.fsencode(path).removeprefix(b'./').hex()]
    tree = {decode(key): at for at, key in enumerate(found['keys'])}
    for step in reversed(found['below']):
        tree = {decode(step): tree, 'epoch': 3}
    return tree
torch = types.ModuleType('torch')
torch.load = load
safetensors = types.ModuleType('safetensors')
safetensors.torch = types.ModuleType('safetensors.torch')
safetensors.torch.load_file = load
sys.modules.update({'torch': torch, 'safetensors': safetensors, 'safetensors.torch': safetensors.torch})
class Model:
    def load_state_dict(self, sd, strict=True):
        self.loaded = [[key.encode('utf-8', 'surrogatepass').hex(), at] for key, at in sd.items()]
told = []
for case in work:
    here = case['files']
    model = Model()
    try:
        exec(bytes.fromhex(case['line']).decode(), {'torch': torch, 'model': model})
        told.append(model.loaded)
    except Exception as error:
        told.append(repr(error))
json.dump(told, open('told.json', 'w'))
)";

std::string hex(std::string_view text) {
  std::string out;
  for (unsigned char c : text) {
    constexpr char kDigits[] = "0123456789abcdef";
    out += kDigits[c >> 4];
    out += kDigits[c & 15];
  }
  return out;
}

/// The line below a heading of `ckpt why`: "fix" or "python".
std::string line_below(const std::string& out, const std::string& heading) {
  std::size_t at = out.find("\n" + heading + "\n  ");
  if (at == std::string::npos) return "";
  at += heading.size() + 4;
  return out.substr(at, out.find('\n', at) - at);
}

RunOptions with_program_in_path() {
  return {.in_child = [] {
    fs::path folder = fs::absolute(built_program("")).parent_path();
    ::setenv("PATH", (folder.string() + ":/usr/bin:/bin").c_str(), 1);
  }};
}

/// Keys of a file as it lies in `dir`, with the values of its tensors, which say where each was.
std::vector<std::pair<std::string, int>> keys_and_values(const fs::path& path) {
  std::vector<std::pair<std::string, int>> out;
  for (const ckpt::NamedEntry& named : ckpt::list_entries(ckpt::open(path).root)) {
    float value = 0;
    named.entry->bytes->read(0, std::as_writable_bytes(std::span(&value, 1)));
    out.emplace_back(named.name, static_cast<int>(value));
  }
  return out;
}

/// One file that does not load, and what it should load into.
struct Case {
  std::string file;
  std::vector<std::string> keys;    ///< as they are in the file
  std::vector<std::string> wanted;  ///< as the model has them
  std::string below;                ///< the key that the state dict lies under, "" for the top
  std::string location = "cpu";
};

std::vector<std::string> distinct_keys(NastyText& nasty, std::size_t count) {
  std::vector<std::string> keys;
  while (keys.size() < count) {
    std::string key = nasty.component() + "." + nasty.component() + std::to_string(keys.size());
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

/// Keys of the file by what is wrong with it.
Case make_case(NastyText& nasty, std::size_t number) {
  Case made;
  made.file = nasty.file_name() + (nasty.below(3) == 0 ? ".safetensors" : ".pth");
  made.wanted = distinct_keys(nasty, 4);
  std::string prefix = nasty.component() + ".";
  std::string other = nasty.component() + ".";
  bool torch = made.file.ends_with(".pth");
  switch (number % 6) {
    case 0:  // a prefix too much
      for (const std::string& key : made.wanted) made.keys.push_back(prefix + key);
      break;
    case 1:  // a prefix too little
      made.keys = made.wanted;
      for (std::string& key : made.wanted) key.insert(0, prefix);
      break;
    case 2:  // another prefix
      for (const std::string& key : made.wanted) made.keys.push_back(prefix + key);
      for (std::string& key : made.wanted) key.insert(0, other);
      break;
    case 3:  // a key too much
      made.keys = made.wanted;
      made.keys.insert(made.keys.begin() + 1, nasty.component());
      break;
    case 4:  // inside another dict
      made.keys = made.wanted;
      if (torch) made.below = nasty.component();
      break;
    default:  // another component in the middle, and on a device
      for (std::string& key : made.wanted) {
        made.keys.push_back("a." + prefix + key);
        key = "a." + other + key;
      }
      if (torch) made.location = "cuda:" + nasty.component();
  }
  return made;
}

void write_case(const TempDir& dir, const Case& made) {
  std::vector<std::pair<std::string, Value>> items;
  for (const std::string& key : made.keys) {
    items.emplace_back(key, tensor({static_cast<float>(items.size())}, made.location));
  }
  Value state = dict(std::move(items));
  if (!made.below.empty()) state = dict({{made.below, state}, {"epoch", Value::integer(3)}});
  write_checkpoint(dir.path() / made.file, state);
  write_checkpoint(dir.path() / "want.safetensors", state_dict(made.wanted));
}

/// The folder holds these names and no other.
void expect_only(const TempDir& dir, std::vector<std::string> expected, const std::string& about) {
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(list_folder(dir.path()), expected) << about;
}

/// The file that a fix made: the only one that was not there.
std::string made_by_fix(const TempDir& dir, const Case& made) {
  for (const std::string& name : list_folder(dir.path())) {
    if (name != made.file && name != "want.safetensors") return name;
  }
  return "";
}

/// A file as somebody types it: "-::x" would be a place in standard input.
std::string typed(const std::string& name) {
  return name.starts_with("-::") ? "./" + name : name;
}

struct Pasted {
  std::string line;  ///< of Python
  Case made;
  std::string fixed;                                 ///< name of the file that the shell line made
  std::vector<std::pair<std::string, int>> results;  ///< what is in it
};

/// Pastes the shell line. Nothing where there is none, or the file is not cured by it.
std::optional<Pasted> paste_into_shells(const Case& made) {
  TempDir dir;
  write_case(dir, made);
  Outcome why = run_ckpt(dir.path(), {"why", "--devices", "0", "--for", "want.safetensors", "--", typed(made.file)});
  std::string line = line_below(why.out, "fix");
  std::string about = line + "\n" + why.out + why.err;
  EXPECT_LT(why.code, 2) << about;
  expect_only(dir, {made.file, "want.safetensors"}, about);
  if (line.empty()) return std::nullopt;
  // A sh that does not know $'...' fails there; it does nothing else either.
  Outcome sh = run_program("/bin/sh", dir.path(), {"-c", line}, with_program_in_path());
  if (line.find("$'") == std::string::npos) {
    EXPECT_EQ(sh.code, 0) << sh.err << about;
  }
  std::string fixed = made_by_fix(dir, made);
  expect_only(dir,
              fixed.empty() ? std::vector<std::string>{made.file, "want.safetensors"}
                            : std::vector<std::string>{made.file, "want.safetensors", fixed},
              about);
  if (!fixed.empty()) fs::remove(dir.path() / fixed);
  Outcome bash = run_program("/bin/bash", dir.path(), {"-c", line}, with_program_in_path());
  EXPECT_EQ(bash.code, 0) << bash.err << about;
  fixed = made_by_fix(dir, made);
  expect_only(dir, {made.file, "want.safetensors", fixed}, about);
  if (fixed.empty()) return std::nullopt;
  Outcome after = run_ckpt(dir.path(), {"why", "--devices", "0", "--for", "want.safetensors", "--", typed(fixed)});
  if (why.out.find("\xe2\x9c\x93 4 of 4 after") != std::string::npos) {
    EXPECT_EQ(after.code, 0) << after.out << about;
  }
  return Pasted{line_below(why.out, "python"), made, fixed, keys_and_values(dir.path() / fixed)};
}

void write_file_of_stub(ckpt::JsonWriter& json, const std::string& name, const std::vector<std::string>& keys,
                        const std::string& below) {
  json.key(hex(name)).begin_object();
  json.key("keys").begin_array();
  for (const std::string& key : keys) json.value(hex(key));
  json.end_array();
  json.key("below").begin_array();
  if (!below.empty()) json.value(hex(below));
  json.end_array();
  json.end_object();
}

/// Pastes all lines of Python into one interpreter; it loads, under the same names, what the fix put into its file.
void paste_into_python(const std::vector<Pasted>& all) {
  TempDir dir;
  ckpt::JsonWriter json;
  json.begin_array();
  for (const Pasted& pasted : all) {
    std::vector<std::string> fixed_keys;
    for (const auto& [key, value] : pasted.results) fixed_keys.push_back(key);
    json.begin_object();
    json.key("line").value(hex(pasted.line));
    json.key("files").begin_object();
    write_file_of_stub(json, pasted.made.file, pasted.made.keys, pasted.made.below);
    write_file_of_stub(json, pasted.fixed, fixed_keys, "");
    json.end_object();
    json.end_object();
  }
  json.end_array();
  write_file(dir.path() / "work.json", json.text());
  write_file(dir.path() / "stub.py", kPython);
  Outcome python = run_program("/usr/bin/python3", dir.path(), {"stub.py"});
  ASSERT_EQ(python.code, 0) << python.err;
  expect_only(dir, {"stub.py", "told.json", "work.json"}, "a line of Python was run that should be text");
  ckpt::JsonDocument told = ckpt::JsonDocument::parse(read_file(dir.path() / "told.json"));
  std::vector<ckpt::JsonView> answers = told.root().items();
  ASSERT_EQ(answers.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_TRUE(answers[i].is(ckpt::JsonView::Kind::array)) << answers[i].as_text() << "\n" << all[i].line;
    std::vector<std::pair<std::string, int>> loaded;
    bool whole = all[i].line.find("# after the command above") == std::string::npos;
    for (const ckpt::JsonView& pair : answers[i].items()) {
      auto at = static_cast<int>(pair.items()[1].as_integer());
      loaded.emplace_back(pair.items()[0].as_text(), whole ? at : all[i].results[static_cast<std::size_t>(at)].second);
    }
    std::vector<std::pair<std::string, int>> expected;
    for (const auto& [key, value] : all[i].results) expected.emplace_back(hex(key), value);
    EXPECT_THAT(loaded, testing::UnorderedElementsAreArray(expected))
        << all[i].line;  // safetensors have their own order
  }
}

void paste_lines(std::uint32_t seed, std::size_t count) {
  if (!fs::exists("/usr/bin/python3")) GTEST_SKIP() << "python3 is not installed";
  if (!fs::exists("/bin/bash")) GTEST_SKIP() << "bash is not installed";
  NastyText nasty(seed);
  std::vector<Pasted> pasted;
  for (std::size_t i = 0; i < count && !testing::Test::HasFatalFailure(); ++i) {
    std::optional<Pasted> one = paste_into_shells(make_case(nasty, i));
    if (one && !one->line.empty()) pasted.push_back(std::move(*one));
  }
  EXPECT_GT(pasted.size(), count / 2);
  paste_into_python(pasted);
}

/// The first thing in a text that a terminal would not show as it is, "" for none.
std::string first_raw(const std::string& text) {
  std::string shown = core::printable(text);
  if (!core::is_utf8(text)) return "bytes that are not UTF-8";
  std::string plain;
  for (char c : text) {  // what printable() escapes for other reasons
    if (c != '\n' && c != '\\') plain += c;
  }
  if (core::printable(plain) != plain) return core::printable(plain);
  bool injected = text.starts_with("INJECTED") || text.find("\nINJECTED") != std::string::npos;
  return injected ? "a line that the file wrote" : "";
}

void expect_clean(const TempDir& dir, const std::vector<std::string>& words) {
  Outcome outcome = run_ckpt(dir.path(), words);
  std::string about = core::join(words, " ");
  EXPECT_EQ(first_raw(outcome.out), "") << core::printable(about);
  EXPECT_EQ(first_raw(outcome.err), "") << core::printable(about);
  EXPECT_NE(outcome.code, 70) << core::printable(about) << outcome.err;
  bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  if (json && outcome.code < 2) {
    EXPECT_NO_THROW(ckpt::JsonDocument::parse(outcome.out)) << about << outcome.out;
  }
}

ckpt::Checkpoint hostile(NastyText& nasty, bool values) {
  std::vector<std::pair<std::string, Value>> items;
  for (const std::string& key : distinct_keys(nasty, 4)) {
    std::string tag = values && nasty.below(2) == 0 ? nasty.component() : "cpu";
    items.emplace_back(key, tensor({static_cast<float>(items.size())}, tag));
  }
  if (values) items.emplace_back(nasty.component() + "v", Value::text(nasty.component()));
  ckpt::Checkpoint made = checkpoint(dict(std::move(items)));
  made.metadata.emplace_back(nasty.component(), nasty.component());
  return made;
}

void list_hostile_files(std::uint32_t seed, std::size_t count) {
  const std::vector<std::vector<std::string>> commands = {{"ls", "--values"},
                                                          {"info"},
                                                          {"info", "--html", "-"},
                                                          {"tree", "--tensors"},
                                                          {"stat"},
                                                          {"hash"},
                                                          {"scan"},
                                                          {"verify"},
                                                          {"meta"},
                                                          {"why", "--devices", "0"},
                                                          {"why", "--for", "other.pth"},
                                                          {"fix", "-n"},
                                                          {"fix", "-n", "--for", "other.pth"},
                                                          {"strip-prefix", "-n"},
                                                          {"add-prefix", "-n", "--prefix", "a."},
                                                          {"remap", "-n", "--to", "cpu"},
                                                          {"select", "-n", "--exclude", "nothing"},
                                                          {"git", "textconv"},
                                                          {"optim", "show"},
                                                          {"zoo", "verify", "lenet5"},
                                                          {"diff", "other.pth"},
                                                          {"align", "other.pth"}};
  NastyText nasty(seed);
  for (std::size_t i = 0; i < count; ++i) {
    TempDir dir;
    static const std::vector<std::string> kEndings = {".pth", ".safetensors", ".npz", ".gguf", ".ckpt", ".pth"};
    std::string ending = kEndings[i % kEndings.size()];
    std::string name = nasty.file_name() + ending;
    bool torch = ending == ".pth" || ending == ".ckpt";
    try {
      ckpt::save(hostile(nasty, torch), dir.path() / name, {.durable = false, .drop_inexpressible = true});
      ckpt::save(hostile(nasty, true), dir.path() / "other.pth", {.durable = false, .drop_inexpressible = true});
    } catch (const core::Error&) {
      continue;  // a name that the format does not take
    }
    for (std::vector<std::string> words : commands) {
      bool asks_json = nasty.below(3) == 0 && words[0] != "git" && words.back() != "-";
      if (asks_json)
        words.insert(words.begin() + (words[0] == "zoo" || words[0] == "optim" ? 2 : 1),
                     nasty.below(2) == 0 ? "--json" : "--jsonl");
      words.emplace_back("--");
      words.push_back(name);
      expect_clean(dir, words);
    }
  }
}

}  // namespace

TEST(PastedLines, RunNothingAndDoWhatTheySay) {
  paste_lines(1, 30);
}

TEST(HostileFiles, ReachNoTerminalRaw) {
  list_hostile_files(1, 6);
}

TEST(HostileFiles, OfferNoKeyThatAShellWouldRun) {
  TempDir dir;
  write_model(dir, "net.pth", {"fc.weight", "fc$(touch canary)", "fc;touch canary", "fc\x1b[2J", "fc`touch canary`"});
  EXPECT_EQ(run_ckpt(dir.path(), {"completion", "bash", "--", "cat", "net.pth", "fc"}).out, "words\nfc.\n");
  EXPECT_EQ(run_ckpt(dir.path(), {"completion", "zsh", "--", "cat", "net.pth", "fc"}).out.find('\x1b'),
            std::string::npos);
}

TEST(GitDiff, TakesNoFileForAnOption) {
  if (std::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "git is not installed";
  TempDir dir;
  auto shell = [&](const std::string& line) {
    return run_program("/bin/sh", dir.path(), {"-c", "export HOME=$PWD GIT_CONFIG_NOSYSTEM=1; " + line},
                       with_program_in_path());
  };
  ASSERT_EQ(shell("git init -q . && git config user.name a && git config user.email a@b && ckpt git install").code, 0);
  EXPECT_THAT(shell("git config diff.ckpt.textconv").out, HasSubstr(" git textconv --\n"));
  write_model(dir, "-o x.safetensors", {"a"});
  write_model(dir, "--help.safetensors", {"a"});
  ASSERT_EQ(shell("git add -A && git commit -qm one").code, 0);
  fs::remove(dir.path() / "-o x.safetensors");
  fs::remove(dir.path() / "--help.safetensors");
  write_model(dir, "-o x.safetensors", {"a", "b"});
  write_model(dir, "--help.safetensors", {"a", "b"});
  for (const char* name : {"-o x.safetensors", "--help.safetensors"}) {
    Outcome diff = shell("git --no-pager diff -- '" + std::string(name) + "'");
    EXPECT_EQ(diff.code, 0) << diff.err;
    EXPECT_THAT(diff.out, HasSubstr("\n+b: float32 [1]")) << name;
    // A repository whose driver was written without "--".
    Outcome old = run_ckpt(dir.path(), {"git", "textconv", name});
    EXPECT_EQ(old.code, 0) << old.err;
    EXPECT_THAT(old.out, HasSubstr("b: float32 [1]")) << name;
  }
  EXPECT_FALSE(fs::exists(dir.path() / " x.safetensors"));
}

TEST(Verify, SaysReadableWhereTheFormatHasNoChecksums) {
  TempDir dir;
  write_model(dir, "net.safetensors", {"a"});
  write_model(dir, "net.pth", {"a"});
  write_model(dir, "net.gguf", {"a"});
  for (const char* name : {"net.safetensors", "net.gguf"}) {
    Outcome text = run_ckpt(dir.path(), {"verify", name});
    EXPECT_EQ(text.code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr(std::string(name) + ": readable; the format has no checksums; 1 tensor, 4 B read: "
                                                        "structure, and that every byte can be read\n"));
    EXPECT_THAT(text.out, Not(HasSubstr("good")));
    Outcome json = run_ckpt(dir.path(), {"verify", "--json", name});
    EXPECT_THAT(json.out, HasSubstr("\"checksums\": \"none\""));
    EXPECT_EQ(json.code, 0);
  }
  EXPECT_THAT(run_ckpt(dir.path(), {"verify", "net.pth"}).out, HasSubstr("net.pth: good; 1 tensor, "));
  EXPECT_THAT(run_ckpt(dir.path(), {"verify", "--json", "net.pth"}).out, HasSubstr("\"checksums\": \"all\""));
}

/// The length of the header begins with the byte that a pickle begins with.
TEST(Verify, TakesNoHeaderOfSafetensorsForAPickle) {
  TempDir dir;
  std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  header.resize(128, ' ');
  write_file(dir.path() / "net.safetensors", std::string("\x80\0\0\0\0\0\0\0", 8) + header + std::string(4, '\0'));
  Outcome verify = run_ckpt(dir.path(), {"verify", "net.safetensors"});
  EXPECT_EQ(verify.code, 0) << verify.out;
  EXPECT_EQ(run_ckpt(dir.path(), {"scan", "net.safetensors"}).code, 0);
}

TEST(PastedLinesMany, RunNothingAndDoWhatTheySay) {
  if (std::getenv("CKPT_MANY") == nullptr) GTEST_SKIP() << "runs under the label slow";
  for (std::uint32_t seed = 2; seed < 9; ++seed) paste_lines(seed, 40);
}

TEST(HostileFilesMany, ReachNoTerminalRaw) {
  if (std::getenv("CKPT_MANY") == nullptr) GTEST_SKIP() << "runs under the label slow";
  list_hostile_files(2, 36);
}
