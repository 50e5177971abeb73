// Whom a server may lead to, whom it may not, what it is told, and what is said when it refuses.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "libckpt/io/byte_source.h"
#include "libckpt/open_save.h"
#include "libckpt/remote/remote.h"
#include "tests/libckpt/remote/web_server.h"
#include "tests/libckpt/transform/trees.h"
#include "tests/support/message_of.h"

using namespace test;

namespace {

Nginx& web() {
  static Nginx server;
  write_file(server.root() / "a.bin", "hello");
  return server;
}

/// A token is known for the hub `hub`, and retries take no time.
void know_token(const std::string& hub, ckpt::RemoteOptions options = {}) {
  ::setenv("HF_TOKEN", "hf_test", 1);
  options.hub = hub;
  options.backoff_ms = 1;
  ckpt::enable_remote_files(options);
}

std::string said(const std::string& url) {
  std::string text = message_of([&] { ckpt::open_file(url); });
  return text.substr(text.starts_with("127.0.0.") ? text.find(' ') + 1 : 0);
}

TEST(RemoteManners, TheTokenGoesToTheHubAlone) {
  know_token(web().hub());
  web().forget_requests();
  EXPECT_EQ(ckpt::open_file(web().url("private/a.bin"))->size(), 5U);
  EXPECT_EQ(ckpt::open_file(web().url("moved/a.bin"))->size(), 5U);
  std::vector<LoggedRequest> seen = web().requests(3);
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].authorization, "Bearer hf_test");
  EXPECT_EQ(seen[1].authorization, "Bearer hf_test");
  EXPECT_EQ(seen[1].status, "302");
  EXPECT_EQ(seen[2].authorization, "-") << "the token went to another host";
}

TEST(RemoteManners, NoTokenGoesToOtherServers) {
  know_token("https://hub.example");
  web().forget_requests();
  EXPECT_EQ(said(web().url("private/a.bin")), "does not give this file to everybody (status 401)");
  ASSERT_EQ(web().requests(1).size(), 1U);
  EXPECT_EQ(web().requests(1)[0].authorization, "-");
}

TEST(RemoteManners, ATokenWithALineBreakIsRefusedAndNotRepeated) {
  know_token(web().hub());
  ::setenv("HF_TOKEN", "hf_secret\r\nX-Evil: 1", 1);
  EXPECT_EQ(said(web().url("a.bin")), "the token for the hub (HF_TOKEN) holds characters that no token has");
  ::setenv("HF_TOKEN", "hf_test", 1);
}

TEST(RemoteManners, APasswordInAnAddressIsNotRepeated) {
  ckpt::enable_remote_files();
  for (auto call : {+[](const char* name) { ckpt::open(name); }, +[](const char* name) { ckpt::verify(name); }}) {
    std::string said;
    try {
      call("https://me:secret@host/a.pth");
    } catch (const core::Error& error) {
      said = error.what();
    }
    EXPECT_EQ(said.find("secret"), std::string::npos) << said;
    EXPECT_EQ(said.find("https://host/a.pth: "), 0U) << said;
  }
}

TEST(RemoteManners, RefusalsAreOneSentenceEach) {
  know_token("https://hub.example");
  EXPECT_EQ(said(web().url("none.bin")), "has no such file (status 404)");
  EXPECT_EQ(said(web().url("denied/a.bin")), "does not give this file to everybody (status 403)");
  EXPECT_EQ(said(web().url("broken/a.bin")), "is out of order or busy (status 500), each of 4 times");
  EXPECT_EQ(said(web().url("norange/a.bin")), "cannot send parts of a file; download it first, 5 B");
  EXPECT_EQ(said(web().url("loop")), "the server leads from address to address, more than 5 times");
  EXPECT_EQ(said(web().url("plain/x")),
            "leads to an address that is not followed: name a file of this machine by its path, without 'file://'");
  EXPECT_EQ(said("http://127.0.0.1:1/x").substr(0, 17), "no server answers");
}

TEST(RemoteManners, HttpIsForThisMachineAlone) {
  know_token("https://hub.example");
  EXPECT_EQ(
      said("http://example.com/a.bin"),
      "http:// is read from this machine alone, since anybody on the way could change the bytes; use https://, or "
      "RemoteOptions::insecure_http in a network that you trust");
  EXPECT_EQ(ckpt::remote_traffic().requests, 0U);
}

TEST(RemoteManners, ACertificateThatNobodyKnowsIsRefused) {
  know_token("https://hub.example");
  std::string text = said(web().https("a.bin"));
  EXPECT_TRUE(text.starts_with("the certificate of 127.0.0.1:")) << text;
  EXPECT_NE(text.find("is not trusted ("), std::string::npos) << text;
  ckpt::RemoteOptions options;
  options.ca_file = web().certificate();
  know_token("https://hub.example", options);
  EXPECT_EQ(ckpt::open_file(web().https("a.bin"))->size(), 5U);
  EXPECT_EQ(said(web().https("down/a.bin")),
            "leads to an address that is not followed: from https:// to http://, where anybody could change the bytes");
  options.ca_file = "/no/such/file";
  know_token("https://hub.example", options);
  EXPECT_EQ(said(web().https("a.bin")), "the certificates in '/no/such/file' cannot be read");
}

TEST(RemoteManners, ASlowServerIsGivenUp) {
  write_file(web().root() / "slow.bin", std::string(100'000, 'x'));
  ckpt::RemoteOptions options;
  options.stall_seconds = 1;
  options.retries = 0;
  know_token("https://hub.example", options);
  EXPECT_TRUE(said(web().url("slow/slow.bin")).starts_with("is too slow: "));
}

TEST(RemoteManners, AFileThatIsReplacedWhileItIsReadIsAnError) {
  know_token("https://hub.example");
  write_file(web().root() / "moving.bin", std::string(1 << 20, 'a'));
  ckpt::SourcePtr file = ckpt::open_file(web().url("moving.bin"));
  write_file(web().root() / "moving.bin", std::string((1 << 20) + 1, 'b'));
  core::ByteVector room(10);
  file->read(100, room);  // was fetched before
  EXPECT_EQ(message_of([&] { file->read(900'000, room); }),
            "the file was changed on the server while it was being read");
}

TEST(RemoteManners, WithoutLibcurlThatIsSaid) {
  // Another process: this one may have opened the library already, which is kept.
  auto open_without = [] {
    ckpt::RemoteOptions options;
    options.libraries = {"libno-such-curl.so.4"};
    ckpt::enable_remote_files(options);
    std::string text = message_of([] { ckpt::open_file("https://host.invalid/a"); });
    bool said = text ==
                "reading files of other machines needs libcurl, which is not installed; install Debian's package "
                "libcurl4, or download the file first";
    std::fprintf(stderr, "%s\n", text.c_str());
    std::exit(said ? 0 : 1);
  };
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(open_without(), ::testing::ExitedWithCode(0), "libcurl4");
}

TEST(RemoteManners, EitherLibcurlOfDebianWillDo) {
  const std::string address = web().https("a.bin");
  const std::filesystem::path certificate = web().certificate();
  for (const char* library : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    void* there = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    if (there == nullptr) continue;
    auto open_with = [&] {
      ckpt::RemoteOptions options;
      options.libraries = {library};
      options.backoff_ms = 1;
      ckpt::enable_remote_files(options);
      std::string refused = message_of([&] { ckpt::open_file(address); });
      options.ca_file = certificate;
      ckpt::enable_remote_files(options);
      std::fprintf(stderr, "%s\n", refused.c_str());
      bool good = refused.find("is not trusted") != std::string::npos && ckpt::open_file(address)->size() == 5;
      std::_Exit(good ? 0 : 1);  // the server and its folder stay
    };
    ::testing::GTEST_FLAG(death_test_style) = "fast";
    EXPECT_EXIT(open_with(), ::testing::ExitedWithCode(0), "is not trusted") << library;
  }
}

TEST(RemoteManners, NothingIsWrittenToAServer) {
  know_token("https://hub.example");
  web().forget_requests();
  EXPECT_EQ(message_of([] { ckpt::save(checkpoint(state_dict({"a"})), web().url("new.ckpt")); }),
            "files on other machines are only read; name a file here as the output");
  EXPECT_EQ(message_of([] { ckpt::verify(web().url("a.bin")); }),
            "a check reads every byte; download the file first, then check it");
  EXPECT_EQ(ckpt::remote_traffic().requests, 0U);
}

}  // namespace
