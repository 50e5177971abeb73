// The program on addresses: every command that reads, what it refuses, and that nothing else touches a network.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "libckpt/open_save.h"
#include "tests/cli/program.h"
#include "tests/libckpt/remote/web_server.h"
#include "tests/libckpt/transform/trees.h"

using namespace test;

namespace {

Nginx& web() {
  static Nginx server;
  ckpt::save(checkpoint(dict({{"model", state_dict({"module.fc.weight", "module.fc.bias"})}})),
             server.root() / "a.pth");
  ckpt::save(checkpoint(state_dict({"fc.weight", "fc.bias"})), server.root() / "b.safetensors");
  return server;
}

Outcome run(const TempDir& dir, std::vector<std::string> arguments) {
  RunOptions options;
  options.in_child = [] { ::setenv("HF_ENDPOINT", "http://127.0.0.1:1", 1); };
  return run_ckpt(dir.path(), arguments, options);
}

/// Like `expected` of the file itself, apart from its name.
void expect_as_near(const std::vector<std::string>& arguments, const std::string& file) {
  TempDir dir;
  std::filesystem::copy(web().root() / file, dir.path() / file);
  auto with = [&](const std::string& name) {
    std::vector<std::string> out = arguments;
    std::ranges::replace(out, std::string("FILE"), name);
    return out;
  };
  Outcome near = run(dir, with(file));
  Outcome far = run(dir, with(web().url(file)));
  std::string text = far.out;
  for (std::size_t at = text.find(web().url(file)); at != std::string::npos; at = text.find(web().url(file))) {
    text.replace(at, web().url(file).size(), file);
  }
  EXPECT_EQ(far.code, near.code) << far.err;
  EXPECT_EQ(text, near.out);
  EXPECT_EQ(far.err, "") << arguments[0];
}

TEST(RemoteProgram, CommandsThatReadTakeAddresses) {
  expect_as_near({"ls", "FILE"}, "b.safetensors");
  expect_as_near({"ls", "--json", "FILE"}, "a.pth");
  expect_as_near({"info", "FILE"}, "b.safetensors");
  expect_as_near({"hash", "FILE"}, "a.pth");
  expect_as_near({"cat", "FILE", "fc.weight"}, "b.safetensors");
  expect_as_near({"diff", "FILE", "FILE"}, "b.safetensors");
  expect_as_near({"stat", "FILE"}, "b.safetensors");
  expect_as_near({"scan", "FILE"}, "a.pth");
}

/// ckpt-run is a program of its own, with the same options: of the file itself it says the same.
TEST(RemoteProgram, ModelsTakeWeightsFromAddresses) {
  TempDir dir;
  std::filesystem::copy(web().root() / "b.safetensors", dir.path() / "b.safetensors");
  auto said = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"zoo", "run", "lenet5"});
    arguments.insert(arguments.end(), {"--input", "b.safetensors"});
    Outcome done = run(dir, arguments);
    EXPECT_EQ(done.code, 3) << done.err;
    const std::string file = "b.safetensors: ";
    return done.err.substr(std::min(done.err.find(file), done.err.size()));
  };
  const std::string near = said({"b.safetensors"});
  EXPECT_EQ(near, "b.safetensors: unexpected keys (2): 'fc.bias', 'fc.weight'\n");
  EXPECT_EQ(said({web().url("b.safetensors")}), near);
  EXPECT_EQ(said({"--cacert", web().certificate().string(), web().https("b.safetensors")}), near);
}

TEST(RemoteProgram, APartOfAFileIsNamedAsEver) {
  TempDir dir;
  EXPECT_EQ(run(dir, {"tree", web().url("a.pth")}).code, 0);
  Outcome done = run(dir, {"ls", web().url("a.pth") + "::model"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("module.fc.weight"), std::string::npos) << done.out;
  EXPECT_EQ(done.out.find("model.module"), std::string::npos) << done.out;
}

TEST(RemoteProgram, WritesFilesHere) {
  TempDir dir;
  Outcome done = run(dir, {"convert", web().url("a.pth") + "::model", "out.safetensors"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(names(ckpt::open(dir.path() / "out.safetensors")),
            (std::vector<std::string>{"module.fc.bias", "module.fc.weight"}));
  done = run(dir, {"select", web().url("b.safetensors") + "?download=true", "--include", "*.bias"});
  EXPECT_EQ(done.code, 0) << done.err;
  done = run(dir, {"strip-prefix", web().url("a.pth") + "::model", "-o", "plain/"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(list_folder(dir.path()), (std::vector<std::string>{"b.selected.safetensors", "out.safetensors", "plain"}));
  EXPECT_EQ(list_folder(dir.path() / "plain"), (std::vector<std::string>{"a.pth"}));
}

TEST(RemoteProgram, WhyWritesLinesThatWriteHere) {
  TempDir dir;
  Outcome done = run(dir, {"why", web().url("a.pth"), "--for", web().url("b.safetensors")});
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_NE(done.out.find("ckpt fix " + web().url("a.pth")), std::string::npos) << done.out;
  EXPECT_NE(done.out.find(" -o a.fixed.pth"), std::string::npos) << done.out;
}

TEST(RemoteProgram, NoFileOfAnotherMachineIsChanged) {
  TempDir dir;
  web().forget_requests();
  std::string sentence = "files on other machines are only read; name a file here";
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"strip-prefix", "--in-place", web().url("a.pth")},
                                             {"convert", web().url("a.pth"), "--in-place", "--format", "torch-zip"},
                                             {"rename", "--glob", "a=b", "--in-place", web().url("a.pth")},
                                             {"convert", (web().root() / "a.pth").string(), web().url("new.pth")}}) {
    Outcome done = run(dir, arguments);
    EXPECT_NE(done.code, 0);
    EXPECT_NE(done.err.find(sentence), std::string::npos) << arguments[0] << ": " << done.err << done.out;
    EXPECT_EQ(std::ranges::count(done.err, '\n'), 1) << done.err;
  }
  EXPECT_EQ(list_folder(dir.path()), std::vector<std::string>());
  EXPECT_EQ(web().requests(0).size(), 0U);
}

TEST(RemoteProgram, BadAddressesAreOneSentenceEach) {
  TempDir dir;
  auto said = [&](const std::string& address) {
    Outcome done = run(dir, {"ls", address});
    EXPECT_NE(done.code, 0);
    EXPECT_EQ(done.out, "");
    EXPECT_EQ(std::ranges::count(done.err, '\n'), 1) << done.err;
    return done.err;
  };
  EXPECT_NE(said("s3://bucket/key").find("'s3://' is not read; https:// and hf:// are"), std::string::npos);
  EXPECT_NE(said("file:///etc/passwd").find("name a file of this machine by its path"), std::string::npos);
  EXPECT_NE(said("http://example.com/a").find("use https://, or --insecure-http in a network"), std::string::npos);
  EXPECT_NE(said("hf://org").find("a file of the hub is named hf://org/repo/file"), std::string::npos);
  EXPECT_NE(said(web().https("a.pth")).find("name the certificate with --cacert FILE"), std::string::npos);
  EXPECT_EQ(said("https://user:secret@host/f"),
            "ckpt: an address has a user or password in it, which is not taken from an address; use a token\n");
}

TEST(RemoteProgram, ACertificateOfOnesOwnIsTrustedWhenNamed) {
  TempDir dir;
  Outcome done = run(dir, {"ls", "--cacert", web().certificate().string(), web().https("b.safetensors")});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("fc.weight"), std::string::npos);
}

TEST(RemoteProgram, CompletionAndGuessesAskNobody) {
  TempDir dir;
  web().forget_requests();
  EXPECT_EQ(run(dir, {"completion", "bash", "--", "ls", web().url("")}).code, 0);
  EXPECT_EQ(run(dir, {"completion", "bash", "--", "cat", web().url("b.safetensors"), "fc."}).code, 0);
  EXPECT_EQ(run(dir, {"completion", "zsh", "--", "ls", web().url("a.pth") + "::"}).code, 0);
  EXPECT_EQ(web().requests(0).size(), 0U);
}

TEST(RemoteProgram, DoesNotOpenLibcurlForFilesHere) {
  TempDir dir;
  ckpt::save(checkpoint(state_dict({"a"})), dir.path() / "a.pth");
  RunOptions options;
  options.in_child = [] { ::setenv("LD_DEBUG", "libs", 1); };
  Outcome done = run_ckpt(dir.path(), {"ls", "a.pth"}, options);
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.err.find("libcurl"), std::string::npos);
}

}  // namespace
