// Servers that lie, break off, are busy or change their mind. Each gives one sentence, and no byte of theirs is
// believed.

#include <gtest/gtest.h>

#include <algorithm>

#include "libckpt/io/byte_source.h"
#include "libckpt/remote/remote.h"
#include "tests/libckpt/remote/web_server.h"
#include "tests/support/message_of.h"

using test::message_of;
using test::OddServer;
using test::part;

namespace {

constexpr std::uint64_t kFront = 256 << 10;

void be_quick() {
  ckpt::RemoteOptions options;
  options.backoff_ms = 1;
  options.stall_seconds = 1;
  options.longest_wait_seconds = 2;
  ckpt::enable_remote_files(options);
}

/// What opening says, without the place of the server.
std::string said(const OddServer& server) {
  be_quick();
  std::string text = message_of([&] { ckpt::open_file(server.url("f")); });
  std::size_t end = text.find(' ');
  return text.starts_with("127.0.0.1:") ? text.substr(end + 1) : text;
}

std::string said_of(const std::string& answer) {
  OddServer server([&](const std::string&, int) { return answer; });
  return said(server);
}

TEST(OddServer, WithoutPartsIsCutOffBehindItsHeaders) {
  std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 107374182400\r\n\r\n";
  OddServer server([&](const std::string&, int) { return head + std::string(1 << 20, 'x'); });
  EXPECT_EQ(said(server), "cannot send parts of a file; download it first, 100 GiB");
  EXPECT_EQ(server.asked(), 1);
  EXPECT_EQ(ckpt::remote_traffic().bytes, 0U);
}

TEST(OddServer, ThatLiesAboutLengthsIsNotBelieved) {
  auto answer = [](const std::string& range, const std::string& length, const std::string& body) {
    return "HTTP/1.1 206 OK\r\nContent-Range: " + range + "\r\nContent-Length: " + length + "\r\n\r\n" + body;
  };
  EXPECT_EQ(said_of(answer("bytes 1-4/5", "4", "1234")),
            "sends other bytes than were asked for: 'bytes 1-4/5' where 5 bytes at byte 0 were wanted");
  EXPECT_EQ(said_of(answer("bytes 0-3/5", "4", "1234")),
            "sends other bytes than were asked for: 'bytes 0-3/5' where 5 bytes at byte 0 were wanted");
  EXPECT_EQ(said_of(answer("bytes 0-4/5", "7", "1234567")),
            "contradicts itself about the length of a part: 7 bytes and 'bytes 0-4/5'");
  for (const char* range : {"bytes 0-4/*", "bytes 4-0/5", "bytes 0-9/5", "items 0-4/5", "bytes 0-4", "",
                            "bytes 0-18446744073709551615/18446744073709551616", "bytes -1-4/5"}) {
    EXPECT_EQ(said_of(answer(range, "5", "12345")),
              "sends a part and does not say which: '" + std::string(range) + "'");
  }
}

TEST(OddServer, MoreBytesThanAnnouncedAreNotTaken) {
  // Without a length the end is where the connection ends.
  EXPECT_EQ(said_of("HTTP/1.1 206 OK\r\nContent-Range: bytes 0-4/5\r\n\r\n123456789"),
            "sends more bytes than it announced");
}

TEST(OddServer, PackedBytesAreRefused) {
  EXPECT_EQ(said_of(part("12345", 0, 5, "Content-Encoding: gzip\r\n")),
            "sends the file packed ('gzip'), although plain bytes were asked for");
}

TEST(OddServer, EndlessHeadersAreCutOff) {
  std::string many = "HTTP/1.1 206 OK\r\n";
  for (int i = 0; i < 5000; ++i) many += "X-" + std::to_string(i) + ": aaaaaaaaaaaaaaaa\r\n";
  EXPECT_EQ(said_of(many + "\r\n"), "sends more than 64 KiB of headers");
}

TEST(OddServer, ABrokenAnswerIsAskedForAgain) {
  std::string body(1000, 'x');
  OddServer server([&](const std::string&, int number) {
    std::string whole = part(body, 0, 1000);
    return number < 2 ? whole.substr(0, whole.size() - 500) : whole;
  });
  be_quick();
  EXPECT_EQ(ckpt::open_file(server.url("f"))->size(), 1000U);
  EXPECT_EQ(server.asked(), 3);
}

TEST(OddServer, AnAnswerThatIsAlwaysBrokenIsAnError) {
  OddServer server([&](const std::string&, int) {
    std::string whole = part(std::string(1000, 'x'), 0, 1000);
    return whole.substr(0, whole.size() - 500);
  });
  std::string text = said(server);
  EXPECT_TRUE(text.starts_with("the connection to 127.0.0.1:")) << text;
  EXPECT_TRUE(text.ends_with("broke after 500 of 1,000 bytes, each of 4 times")) << text;
  EXPECT_EQ(server.asked(), 4);
}

TEST(OddServer, ABusyOneIsAskedAgainWhenItSays) {
  OddServer server([&](const std::string&, int number) -> std::string {
    if (number == 0) return "HTTP/1.1 429 Too Many\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    return part("12345", 0, 5);
  });
  be_quick();
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(ckpt::open_file(server.url("f"))->size(), 5U);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(950));
}

TEST(OddServer, ABusyOneIsNotWaitedForLong) {
  EXPECT_EQ(said_of("HTTP/1.1 503 Busy\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n"),
            "asks to come back in 3600 seconds (status 503)");
  EXPECT_EQ(said_of("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
            "is out of order or busy (status 500), each of 4 times");
}

TEST(OddServer, ASilentOneIsGivenUp) {
  be_quick();
  OddServer server([](const std::string&, int) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3500));
    return std::string();
  });
  ckpt::RemoteOptions options;
  options.retries = 0;
  options.stall_seconds = 1;
  ckpt::enable_remote_files(options);
  std::string text = message_of([&] { ckpt::open_file(server.url("f")); });
  EXPECT_NE(text.find("is too slow: 0 bytes came, then less than 1 KiB a second for 1 seconds"), std::string::npos)
      << text;
}

/// A file of 1 MiB that changes behind the first answer, as `second` says.
std::string change(const std::function<std::string(std::uint64_t first)>& second) {
  OddServer server([&](const std::string& request, int number) {
    if (number == 0) return part(std::string(kFront, 'a'), 0, 1 << 20, "ETag: \"one\"\r\n");
    EXPECT_NE(request.find("If-Range: \"one\"\r\n"), std::string::npos) << request;
    return second(std::stoull(request.substr(request.find("bytes=") + 6)));
  });
  be_quick();
  ckpt::SourcePtr file = ckpt::open_file(server.url("f"));
  core::ByteVector room(1000);
  return message_of([&] { file->read(800'000, room); });
}

TEST(OddServer, AFileThatChangesMeanwhileIsAnError) {
  constexpr std::string_view kChanged = "the file was changed on the server while it was being read";
  std::string body(64 << 10, 'b');
  EXPECT_EQ(change([&](auto first) { return part(body, first, 1 << 20, "ETag: \"one\"\r\n"); }), "no error");
  EXPECT_EQ(change([&](auto first) { return part(body, first, 1 << 20, "ETag: \"two\"\r\n"); }), kChanged);
  EXPECT_EQ(change([&](auto first) { return part(body, first, 1 << 21, "ETag: \"one\"\r\n"); }), kChanged);
  EXPECT_EQ(change([&](auto first) { return part(body, first, 1 << 20); }), kChanged);
  EXPECT_EQ(change([](auto) { return std::string("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\nxx"); }), kChanged);
}

TEST(OddServer, RedirectsToOddPlacesAreNotFollowed) {
  auto to = [](const std::string& where) {
    return said_of("HTTP/1.1 302 Found\r\nLocation: " + where + "\r\nContent-Length: 0\r\n\r\n");
  };
  EXPECT_EQ(to("file:///etc/passwd"),
            "leads to an address that is not followed: name a file of this machine by its "
            "path, without 'file://'");
  EXPECT_EQ(to("ftp://host/f"),
            "leads to an address that is not followed: 'ftp://' is not read; https:// and hf:// "
            "are, and files of this machine");
  EXPECT_EQ(to("http://user:secret@127.0.0.1/f"),
            "leads to an address that is not followed: the address has a user or password in it, which is not taken "
            "from an address; use a token");
  EXPECT_NE(to("http://example.com/f").find("http:// is read from this machine alone"), std::string::npos);
  EXPECT_EQ(said_of("HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n"), "leads elsewhere and does not say where");
}

TEST(OddServer, AnEmptyFileMayHaveNoRange) {
  OddServer server([](const std::string&, int) {
    return std::string("HTTP/1.1 416 No\r\nContent-Range: bytes */0\r\nContent-Length: 0\r\n\r\n");
  });
  be_quick();
  EXPECT_EQ(ckpt::open_file(server.url("f"))->size(), 0U);
}

TEST(OddServer, WhatIsNoHttpIsAnError) {
  EXPECT_NE(said_of("hello\r\n\r\n"), "no error");
  EXPECT_NE(said_of(""), "no error");
}

}  // namespace
