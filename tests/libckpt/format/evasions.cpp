#include "tests/libckpt/format/evasions.h"

namespace test {
namespace {

using namespace std::string_literals;

void add_symbols(std::vector<Evasion>& out) {
  for (const auto& [module, name] :
       std::vector<std::pair<std::string, std::string>>{{"pip", "main"},
                                                        {"idlelib.run", "Executive"},
                                                        {"_osx_support", "_read_output"},
                                                        {"numpy.testing", "run"},
                                                        {"torch.utils.bottleneck.__main__", "run_cprofile"}}) {
    out.push_back({1, module, "a.pth", torch_zip(pickle(harmful_call(module, name))).bytes()});
  }
  out.push_back(
      {17, "hooks of scanners", "a.pth", torch_zip(pickle(harmful_call("picklescan.scanner", "unhook"))).bytes()});
  out.push_back({17, "our own labels", "a.pth", torch_zip(pickle(harmful_call("ckpt", "label"))).bytes()});
}

void add_containers(std::vector<Evasion>& out) {
  out.push_back({2, "pickle as safetensors", "a.safetensors", harmful_pickle()});
  out.push_back({2, "torch zip as npz", "a.npz", torch_zip(harmful_pickle()).bytes()});
  out.push_back({2, "pickle as bin", "pytorch_model.bin", harmful_pickle()});
  out.push_back({3, "7z", "a.pth", "7z\xbc\xaf\x27\x1c" + std::string(100, '\1')});
  out.push_back({3, "gzip", "a.pth", "\x1f\x8b\x08" + std::string(100, '\1')});
  out.push_back({3, "xz", "a.pth",
                 "\xfd"
                 "7zXZ" +
                     std::string(100, '\0')});
  out.push_back({3, "rar", "a.pth", "Rar!" + std::string(100, '\1')});
  out.push_back({3, "ELF", "a.pth",
                 "\x7f"
                 "ELF" +
                     std::string(100, '\1')});
  out.push_back({3, "HTML", "a.pth", "<html><body>403</body></html>"});
  out.push_back(
      {3, "HDF5 after a user block", "a.h5", std::string(512, '\0') + "\x89HDF\r\n\x1a\n" + std::string(600, '\0')});
}

void add_broken_pickles(std::vector<Evasion>& out) {
  std::string broken = "\x80\x02" + harmful_call() + "\xff";
  out.push_back({4, "in a zip", "a.pth", torch_zip(broken).bytes()});
  out.push_back({4, "bare", "a.pkl", broken});
  out.push_back({4, "protocol 0, no STOP", "a.pkl", "cposix\nsystem\n(S'true'\ntR"});
  out.push_back({11, "memo entry never stored", "a.pkl", "\x80\x02h\x63" + harmful_call() + "."});
  out.push_back({11, "memo entry of a wrong type", "a.pkl", "\x80\x02Npabc\n" + harmful_call() + "."});
  out.push_back({11, "negative memo entry", "a.pkl", "\x80\x02g-1\n" + harmful_call() + "."});
}

void add_zips(std::vector<Evasion>& out) {
  for (std::uint16_t flag : {std::uint16_t{0x1}, std::uint16_t{0x20}, std::uint16_t{0x40}}) {
    ZipSpec zip = torch_zip(harmful_pickle());
    zip.members[0].flags = flag;
    out.push_back({5, "flag " + std::to_string(flag), "a.pth", zip.bytes()});
  }
  ZipSpec renamed = torch_zip(harmful_pickle());
  renamed.members[0].local_name = "x/notes.t";
  out.push_back({6, "local name", "a.pth", renamed.bytes()});
  ZipSpec damaged = torch_zip(harmless_pickle());
  damaged.members[0].crc_xor = 1;
  out.push_back({7, "CRC of the pickle", "a.pth", damaged.bytes()});
  ZipSpec hidden = torch_zip(harmless_pickle());
  hidden.add("x/first.pkl", "\x80\x02\xff");
  hidden.add("x/second.pkl", harmful_pickle());
  out.push_back({8, "after a broken member", "a.pth", hidden.bytes()});
  ZipSpec nested;
  nested.add("model/policy.pth", torch_zip(harmful_pickle()).bytes());
  out.push_back({9, "zip in a zip", "a.zip", nested.bytes()});
  std::string deep = torch_zip(harmless_pickle()).bytes();
  for (int level = 0; level < 4; ++level) {
    ZipSpec wrap;
    wrap.add("inner.zip", deep);
    deep = wrap.bytes();
  }
  out.push_back({9, "zips too deep", "a.zip", deep});
}

void add_opcodes(std::vector<Evasion>& out) {
  std::string names = short_text("posix") + "\x94" + short_text("system") + "\x94";
  std::string argument = short_text("true") + "\x85R";
  out.push_back({10, "names of a frame", "a.pkl", framed(names + "\x93" + argument)});
  out.push_back({10, "names through the memo", "a.pkl", framed("(" + names + "1h" + "\0h\1\x93"s + argument)});
  out.push_back({10, "a computed name", "a.pkl",
                 framed(short_text("posix") + call(symbol("builtins", "str"), {text("system")}) + "\x93" + argument)});
  out.push_back({12, "INST", "a.pkl", "\x80\x02(" + text("true") + "iposix\nsystem\n."});
  out.push_back({12, "OBJ, dropped", "a.pkl", "\x80\x02(" + symbol("posix", "system") + text("true") + "o0N."});
  out.push_back({12, "NEWOBJ_EX", "a.pkl", "\x80\x04" + symbol("posix", "system") + tuple({text("true")}) + "}\x92."});
  out.push_back(
      {12, "BUILD", "a.pkl", pickle(instance(symbol("my.module", "Thing"), pickled_dict({{text("x"), number(1)}})))});
  out.push_back({12, "EXT1", "a.pkl", "\x80\x02\x82\x01)R."});
  out.push_back({12, "PERSID in a zip", "a.pth", torch_zip("\x80\x02Pposix system\n.").bytes()});
  out.push_back(
      {15, "an opcode across a frame", "a.pkl", "\x80\x04\x95" + raw(std::uint64_t{3}) + harmful_call() + "."});
  std::string early = "N." + harmful_pickle();
  out.push_back({15, "STOP before the end of a frame", "a.pkl",
                 "\x80\x04\x95" + raw(static_cast<std::uint64_t>(early.size())) + early});
}

void add_streams(std::vector<Evasion>& out) {
  out.push_back({13, "after STOP in a zip", "a.pth", torch_zip(harmless_pickle() + harmful_pickle()).bytes()});
  out.push_back({13, "second pickle of a file", "a.pkl", harmless_pickle() + harmful_pickle()});
  out.push_back({13, "data after a pickle", "a.pkl", harmless_pickle() + std::string(40, '\xee')});
  out.push_back(
      {13, "fifth pickle of a stream", "a.pth", legacy_head() + harmless_pickle() + pickle(list({harmful_call()}))});
  out.push_back({13, "after a stream", "a.pth", legacy_stream(pickled_dict({}), {}) + harmful_pickle()});
  std::string magic = pickle(call(symbol("builtins", "int"), {text("0x1950a86a20f9469cfc6c"), number(16)}));
  out.push_back({14, "a computed magic number", "a.pth", magic + legacy_stream(pickled_dict({}), {}).substr(15)});
  std::string bomb = "]q\0"s;
  for (char level = 1; level < 10; ++level) {
    bomb += "](" + joined(std::vector<std::string>(10, "h"s + static_cast<char>(level - 1))) + "eq" + level;
  }
  out.push_back({16, "a list that unfolds", "a.pth", torch_zip(pickle(bomb + "\x85")).bytes()});
  out.push_back({16, "a deep stack", "a.pkl", "\x80\x02(" + std::string(200'000, 'N') + "t."});
}

void add_code(std::vector<Evasion>& out) {
  out.push_back({18, "GGUF template", "a.gguf", gguf_with_template()});
  out.push_back({18, "object array", "a.npy", npy("|O", harmless_pickle())});
  ZipSpec arrays;
  arrays.add("a.npy", npy("|O", harmless_pickle()));
  out.push_back({18, "object array in an npz", "a.npz", arrays.bytes()});
  ZipSpec keras;
  keras.add("metadata.json", "{}");
  keras.add("config.json", R"({"config": {"layers": [{"class_name": "Lambda", "config": {"function": "gASV"}}]}})");
  out.push_back({18, "Lambda layer", "a.keras", keras.bytes()});
  ZipSpec custom;
  custom.add("metadata.json", "{}");
  custom.add("config.json", R"({"class_name": "Evil", "module": "os"})");
  out.push_back({18, "class of another module", "a.keras", custom.bytes()});
  out.push_back(
      {18, "Lambda layer in HDF5", "a.h5",
       "\x89HDF\r\n\x1a\n" + std::string(100, '\0') + R"({"class_name": "Lambda"})" + std::string(100, '\0')});
  std::string module = instance(symbol("__torch__", "M"), pickled_dict({{text("training"), "\x88"}}));
  ZipSpec script = torch_zip(pickle(module));
  script.add("x/constants.pkl", pickle(")"));
  script.add("x/code/__torch__.py", "class M(Module):\n  pass\n");
  out.push_back({18, "TorchScript", "a.pt", script.bytes()});
  ZipSpec sidecar = torch_zip(harmless_pickle());
  sidecar.add("x/.data/extern_modules", "os\n");
  out.push_back({18, ".data sidecar", "a.pth", sidecar.bytes()});
  ZipSpec source = torch_zip(harmless_pickle());
  source.add("x/setup.py", "import os\n");
  out.push_back({18, "source code", "a.pth", source.bytes()});
}

}  // namespace

std::vector<Evasion> all_evasions() {
  std::vector<Evasion> out;
  add_symbols(out);
  add_containers(out);
  add_broken_pickles(out);
  add_zips(out);
  add_opcodes(out);
  add_streams(out);
  add_code(out);
  return out;
}

}  // namespace test
