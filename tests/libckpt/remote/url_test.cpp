// Addresses: what is one, and what is refused before anybody is asked.

#include "libckpt/remote/url.h"

#include <gtest/gtest.h>

#include "libckpt/io/remote_name.h"
#include "libckpt/remote/hub.h"
#include "tests/support/message_of.h"

using namespace ckpt::detail;
using test::message_of;

namespace {

std::string refusal(const std::string& text) {
  return message_of([&] { parse_url(text); });
}

TEST(Url, IsTakenApart) {
  Url url = parse_url("HTTPS://Hub.Example:8443/a/b c.pth?x=1&y=a/b");
  EXPECT_EQ(url.scheme, "https");
  EXPECT_EQ(url.host, "hub.example");
  EXPECT_EQ(url.port, "8443");
  EXPECT_EQ(url.target, "/a/b%20c.pth?x=1&y=a/b");
  EXPECT_EQ(parse_url("https://host").text(), "https://host:443/");
  EXPECT_EQ(parse_url("http://[::1]:80/x").host, "[::1]");
  EXPECT_EQ(parse_url("https://host/a%20b%zz").target, "/a%20b%25zz");
}

TEST(Url, RefusesWhatIsNone) {
  EXPECT_EQ(refusal("https:/host"), "it is no address: '://' is missing");
  EXPECT_EQ(refusal("https:///file"), "the address names no host: ''");
  EXPECT_EQ(refusal("https://ho st/file"), "the address names no host: 'ho st'");
  EXPECT_EQ(refusal("https://host:0/"), "the address has the port '0'; ports are 1 to 65535");
  EXPECT_EQ(refusal("https://host:99999/"), "the address has the port '99999'; ports are 1 to 65535");
  EXPECT_EQ(refusal("https://host/a\r\nX: y"), "the address has a line break or another control character in it");
  EXPECT_EQ(refusal("https://host/a#b"), "the address has a '#' in it; write %23 where a name has one");
  EXPECT_EQ(refusal("file:///etc/passwd"), "name a file of this machine by its path, without 'file://'");
  EXPECT_EQ(refusal("s3://bucket/file"), "'s3://' is not read; https:// and hf:// are, and files of this machine");
}

TEST(Url, APasswordIsRefusedAndNotRepeated) {
  for (const char* text : {"https://user:secret@host/file", "https://secret@host/file"}) {
    EXPECT_EQ(refusal(text),
              "the address has a user or password in it, which is not taken from an address; use a token");
  }
  EXPECT_EQ(parse_url("https://host/a@b").target, "/a@b");
}

TEST(Url, KnowsThisMachine) {
  for (const char* text : {"http://localhost/", "http://127.0.0.1/", "http://127.255.0.3:8/", "http://[::1]/"}) {
    EXPECT_TRUE(is_loopback(parse_url(text))) << text;
  }
  for (const char* text : {"http://127.0.0.1.evil.example/", "http://128.0.0.1/", "http://localhost.example/",
                           "http://127.1/", "http://[::2]/", "http://127.0.0.256/"}) {
    EXPECT_FALSE(is_loopback(parse_url(text))) << text;
  }
}

TEST(RemoteName, IsSeenByItsFormAlone) {
  for (const char* text : {"https://h/f", "hf://org/repo", "s3://b/k", "HTTP://h"}) {
    EXPECT_TRUE(ckpt::is_remote_name(text)) << text;
  }
  for (const char* text : {"net.pth", "a/b://c", "://x", "c://x", "https:/h", "/https://h", "1s://x"}) {
    EXPECT_FALSE(ckpt::is_remote_name(text)) << text;
  }
}

TEST(RemoteName, NeighboursStayBesideTheFileThatNamesThem) {
  EXPECT_EQ(remote_sibling("https://h/d", "a b?.bin"), "https://h/d/a%20b%3F.bin");
  EXPECT_EQ(remote_sibling("https://h/d", "http:x"), "https://h/d/http:x");
  for (const char* name : {"../x.safetensors", "/etc/x", "a//b", "", "a\nb", "a\\b", "./x"}) {
    EXPECT_THROW(remote_sibling("https://h/d", name), core::Error) << name;
  }
  EXPECT_THROW(remote_sibling("https://h/d?key=1", "a"), core::Error);
}

TEST(HubName, IsTakenApart) {
  HubName name = parse_hub_name("hf://org/repo@refs%2Fpr%2F1/sub/model.safetensors");
  EXPECT_EQ(name.repository, "org/repo");
  EXPECT_EQ(name.revision, "refs%2Fpr%2F1");
  EXPECT_EQ(name.file, "sub/model.safetensors");
  EXPECT_FALSE(name.is_folder());
  EXPECT_TRUE(parse_hub_name("hf://org/repo").is_folder());
  EXPECT_TRUE(parse_hub_name("hf://org/repo/sub").is_folder());
  EXPECT_TRUE(parse_hub_name("hf://org/repo/v1.5/").is_folder());
  EXPECT_EQ(parse_hub_name("hf://org/repo@v1/sub").name_of("a.pth"), "hf://org/repo@v1/sub/a.pth");
  for (const char* bad : {"hf://org", "hf:///repo/f", "hf://org/../f", "hf://org/repo@/f", "hf://org/re po/f",
                          "hf://org/repo/../../x", "hf://a:b@org/repo/f", "hf://org/repo@../f"}) {
    EXPECT_EQ(message_of([&] { parse_hub_name(bad); }),
              "a file of the hub is named hf://org/repo/file or hf://org/repo@revision/file")
        << bad;
  }
}

TEST(HubName, AFolderStandsForTheModelInIt) {
  EXPECT_EQ(model_among({"a.txt", "model.safetensors", "model.safetensors.index.json"}),
            "model.safetensors.index.json");
  EXPECT_EQ(model_among({"q4.gguf", "README.md"}), "q4.gguf");
  EXPECT_EQ(message_of([] {
              model_among({"q4.gguf", "q8.gguf"});
            }),
            "several files there are models: 'q4.gguf', 'q8.gguf'; name one of them");
  EXPECT_EQ(message_of([] { model_among({"README.md"}); }), "no file there is a model by its name");
  EXPECT_EQ(message_of([] { files_in_list("{\"error\":1}"); }),
            "the hub's list of files is not in the form that is known");
}

}  // namespace
