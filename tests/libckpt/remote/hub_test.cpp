// A model hub: names, folders, revisions that stay, the token.

#include <gtest/gtest.h>

#include <cstdlib>

#include "libckpt/open_save.h"
#include "libckpt/remote/remote.h"
#include "tests/libckpt/remote/web_server.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/message_of.h"

using namespace test;

namespace {

Nginx& web() {
  static Nginx server;
  return server;
}

void use_hub() {
  ::setenv("HF_ENDPOINT", web().hub().c_str(), 1);
  ::setenv("HF_TOKEN", "hf_test", 1);
  ckpt::enable_remote_files();
  web().forget_requests();
}

void write_set() {
  ckpt::SaveOptions save;
  save.max_shard_size = 8;
  ckpt::save(checkpoint(state_dict({"a", "b", "c", "d"})), web().root() / "model.safetensors", save);
  std::string list = "[{\"type\":\"directory\",\"path\":\"sub\"}";
  for (const std::string& name : list_folder(web().root())) list += ",{\"type\":\"file\",\"path\":\"" + name + "\"}";
  write_file(web().root() / "list.json", list + "]");
}

TEST(Hub, ARepositoryIsAFolder) {
  write_set();
  use_hub();
  EXPECT_EQ(names(ckpt::open("hf://org/repo")), (std::vector<std::string>{"a", "b", "c", "d"}));
  std::vector<LoggedRequest> seen = web().requests(4);
  ASSERT_GE(seen.size(), 4U);
  EXPECT_EQ(seen[0].line, "GET /api/models/org/repo/tree/main HTTP/1.1");
  EXPECT_EQ(seen[1].line, "GET /org/repo/resolve/main/model.safetensors.index.json HTTP/1.1");
}

TEST(Hub, AllFilesComeFromTheCommitOfTheFirst) {
  write_set();
  use_hub();
  ckpt::open("hf://org/repo/model.safetensors.index.json");
  int of_main = 0;
  int of_commit = 0;
  for (const LoggedRequest& request : web().requests(6)) {
    bool at_hub = request.status == "302";
    of_main += at_hub && request.line.find("/resolve/main/") != std::string::npos ? 1 : 0;
    of_commit += at_hub && request.line.find("/resolve/0123456789012345678901234567890123456789/") != std::string::npos;
  }
  EXPECT_EQ(of_main, 1);
  EXPECT_GE(of_commit, 2);
}

TEST(Hub, TheTokenStaysWithTheHubAndSignedAddressesAreNotShown) {
  write_set();
  use_hub();
  ckpt::open("hf://org/repo@v1/model.safetensors.index.json");
  for (const LoggedRequest& request : web().requests(6)) {
    bool signed_address = request.line.find("Signature=hidden") != std::string::npos;
    EXPECT_EQ(request.authorization, signed_address ? "-" : "Bearer hf_test") << request.line;
  }
  std::string text;
  try {
    ckpt::open("hf://org/repo/none.safetensors");
  } catch (const core::Error& error) {
    text = error.what();
  }
  EXPECT_NE(text.find("hf://org/repo/none.safetensors: "), std::string::npos) << text;
  EXPECT_NE(text.find("has no such file (status 404)"), std::string::npos) << text;
  for (const char* secret : {"Signature", "hidden", "hf_test"}) EXPECT_EQ(text.find(secret), std::string::npos) << text;
}

TEST(Hub, ATokenIsFoundInTheFileOfTheUser) {
  write_set();
  TempDir home;
  std::filesystem::create_directories(home.path() / ".cache/huggingface");
  write_file(home.path() / ".cache/huggingface/token", "hf_of_file\n");
  ::unsetenv("HF_TOKEN");
  ::unsetenv("HF_HOME");
  ::setenv("HF_ENDPOINT", web().hub().c_str(), 1);
  ::setenv("HOME", home.path().c_str(), 1);
  ckpt::enable_remote_files();
  web().forget_requests();
  ckpt::open("hf://org/repo/model.safetensors.index.json");
  EXPECT_EQ(web().requests(1).front().authorization, "Bearer hf_of_file");
}

TEST(Hub, AnIndexMayComeWhole) {
  write_set();
  use_hub();
  EXPECT_EQ(message_of([] { ckpt::open(web().url("norange/model.safetensors.index.json")); }).substr(0, 9),
            "127.0.0.1");
  std::vector<LoggedRequest> seen = web().requests(3);
  ASSERT_GE(seen.size(), 3U);
  EXPECT_EQ(seen[0].range, "bytes=0-262143");
  EXPECT_EQ(seen[0].status, "200");  // cut off behind its headers
  EXPECT_EQ(seen[1].range, "-");     // the index, then a shard, which is refused
}

TEST(Hub, AnIndexNamesNeighboursOnly) {
  use_hub();
  write_file(web().root() / "evil.safetensors.index.json",
             R"({"weight_map":{"a":"http://127.0.0.1:1/evil.safetensors"}})");
  EXPECT_EQ(message_of([] { ckpt::open(web().url("evil.safetensors.index.json")); }),
            "the index names the shard 'http://127.0.0.1:1/evil.safetensors', which is not beside the index");
}

TEST(Hub, AShardThatIsMissingIsNamed) {
  use_hub();
  write_file(web().root() / "half.safetensors.index.json", R"({"weight_map":{"a":"gone.safetensors"}})");
  std::string text;
  try {
    ckpt::open(web().url("half.safetensors.index.json"));
  } catch (const core::Error& error) {
    text = error.what();
  }
  EXPECT_NE(text.find("gone.safetensors: "), std::string::npos) << text;
  EXPECT_NE(text.find("has no such file (status 404)"), std::string::npos) << text;
}

/// A hub whose list of files has two pages; `next` is where the first says that it goes on.
std::string page_of(const std::string& request, const std::string& next) {
  auto list = [](const std::string& file, const std::string& more) {
    const std::string body = R"([{"type":"file","path":")" + file + R"("}])";
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + more + "\r\n" + body;
  };
  if (request.find("cursor=b,c") != std::string::npos) return list("model.safetensors", "");
  if (request.starts_with("GET /api/")) {
    return list("config.json", "Link: <" + next + "?x=1>; rel=\"prev\", <" + next + ">; rel=\"next\"\r\n");
  }
  return "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
}

TEST(Hub, AListOfSeveralPagesIsReadToItsEnd) {
  OddServer hub(
      [](const std::string& request, int) { return page_of(request, "/api/models/org/repo/tree/main?cursor=b,c"); });
  ::setenv("HF_ENDPOINT", hub.url("").c_str(), 1);
  ckpt::enable_remote_files();
  EXPECT_NE(message_of([] { ckpt::open("hf://org/repo"); }).find("has no such file"), std::string::npos);
  EXPECT_EQ(hub.asked(), 3);
}

TEST(Hub, AListThatGoesOnElsewhereIsNotFollowed) {
  OddServer hub([](const std::string& request, int) { return page_of(request, "http://127.0.0.1:1/list"); });
  ::setenv("HF_ENDPOINT", hub.url("").c_str(), 1);
  ckpt::enable_remote_files();
  EXPECT_NE(message_of([] { ckpt::open("hf://org/repo"); }).find("list of files goes on at another server"),
            std::string::npos);
  EXPECT_EQ(hub.asked(), 1);
}

}  // namespace
