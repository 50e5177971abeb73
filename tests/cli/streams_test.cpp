// What goes in and out: standard input, versioned JSON, JSON lines, errors as JSON, tables on narrow terminals.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

#include "libckpt/io/json.h"
#include "tests/cli/files.h"
#include "tools/ckpt/line/standard_input.h"
#include "tools/ckpt/output/json_lines.h"
#include "tools/ckpt/output/output.h"

using ckpt::JsonDocument;
using testing::HasSubstr;
using testing::StartsWith;
using namespace test;

namespace {

/// Standard input is a pipe that holds `content`, which must be shorter than a pipe's buffer.
RunOptions piped(const std::string& content) {
  RunOptions options;
  options.in_child = [content] {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(99);
    if (::write(ends[1], content.data(), content.size()) != static_cast<ssize_t>(content.size())) ::_exit(98);
    ::close(ends[1]);
    ::dup2(ends[0], 0);
  };
  return options;
}

RunOptions redirected(const std::filesystem::path& file) {
  RunOptions options;
  options.in_child = [file] { ::dup2(::open(file.c_str(), O_RDONLY), 0); };
  return options;
}

}  // namespace

TEST(StandardInput, IsReadByEveryLookingCommand) {
  TempDir dir;
  write_model(dir, "net.pth", {"a", "b"});
  std::string content = read_file(dir.path() / "net.pth");
  EXPECT_EQ(run_ckpt(dir.path(), {"ls", "-q", "-"}, piped(content)).out, "a\nb\n");
  EXPECT_THAT(run_ckpt(dir.path(), {"info", "-"}, piped(content)).out, StartsWith("standard input\n  format"));
  EXPECT_THAT(run_ckpt(dir.path(), {"tree", "-"}, piped(content)).out, HasSubstr("standard input"));
  EXPECT_THAT(run_ckpt(dir.path(), {"verify", "-"}, piped(content)).out, StartsWith("standard input: good"));
  EXPECT_EQ(run_ckpt(dir.path(), {"diff", "-", "net.pth"}, piped(content)).code, 0);
  EXPECT_EQ(run_ckpt(dir.path(), {"ls", "-q", "-"}, redirected(dir.path() / "net.pth")).out, "a\nb\n");
}

TEST(StandardInput, TakesAPlaceInside) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"model", state_dict({"w"})}, {"ema", state_dict({"e"})}}));
  EXPECT_EQ(run_ckpt(dir.path(), {"ls", "-q", "-::ema"}, piped(read_file(dir.path() / "net.pth"))).out, "e\n");
  EXPECT_EQ(run_ckpt(dir.path(), {"ls", "-q", "/dev/stdin"}, piped(read_file(dir.path() / "net.pth"))).out,
            "model.w\nema.e\n");
}

TEST(StandardInput, NeedsANameForWhatIsMadeOfIt) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  std::string content = read_file(dir.path() / "net.pth");
  expect_refused(dir, {"strip-prefix", "-"}, 2, "standard input", "-o OUT", piped(content));
  expect_refused(dir, {"strip-prefix", "-", "--in-place"}, 2, "standard input", "-o OUT", piped(content));
  EXPECT_EQ(run_ckpt(dir.path(), {"strip-prefix", "-", "-o", "plain.safetensors"}, piped(content)).code, 0);
  EXPECT_EQ(names_in(dir.path() / "plain.safetensors"), std::vector<std::string>{"a"});
}

TEST(StandardInput, ThatIsCutOffOrEmptyIsNamed) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  std::string content = read_file(dir.path() / "net.pth");
  expect_refused(dir, {"ls", "-"}, 3, "standard input", "cut off", piped(content.substr(0, 200)));
  expect_refused(dir, {"ls", "-"}, 3, "standard input", "empty", piped(""));
}

TEST(StandardInput, NeedsRoomForItsCopy) {
  TempDir dir;
  write_model(dir, "net.pth", {"a"});
  RunOptions options = piped(read_file(dir.path() / "net.pth"));
  options.in_child = [pipe = options.in_child] {
    pipe();
    ::setenv("TMPDIR", "/no/such/folder", 1);
  };
  expect_refused(dir, {"ls", "-"}, 4, "standard input", "'/no/such/folder'", options);
}

TEST(Json, CarriesItsVersion) {
  TempDir dir;
  write_model(dir, "net.pth", {"module.a"});
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"ls", "--json", "net.pth"},
                                                    {"info", "--json", "net.pth"},
                                                    {"tree", "--json", "net.pth"},
                                                    {"meta", "--json", "net.pth"},
                                                    {"verify", "--json", "net.pth"},
                                                    {"strip-prefix", "--json", "--dry-run", "net.pth"},
                                                    {"doctor", "--json"},
                                                    {"--version", "--json"}}) {
    Outcome outcome = run_ckpt(dir.path(), arguments);
    JsonDocument json = JsonDocument::parse(outcome.out);
    EXPECT_EQ(json.root().members().front().first, "schema") << arguments.front();
    EXPECT_EQ(json.root().at("schema").as_integer(), 2);
    EXPECT_EQ(std::string(json.root().at("version").as_text()), CKPT_VERSION);
  }
}

TEST(Json, OfOneFileHasTheShapeOfSeveral) {
  TempDir dir;
  write_model(dir, "a.pth", {"x"});
  write_model(dir, "b.pth", {"y"});
  for (const char* command : {"ls", "info", "tree", "meta", "verify"}) {
    JsonDocument json = JsonDocument::parse(run_ckpt(dir.path(), {command, "--json", "a.pth", "b.pth"}).out);
    EXPECT_EQ(json.root().at("schema").as_integer(), 2);
    EXPECT_EQ(json.root().at("files").items().size(), 2U) << command;
    JsonDocument one = JsonDocument::parse(run_ckpt(dir.path(), {command, "--json", "a.pth"}).out);
    ASSERT_EQ(one.root().at("files").items().size(), 1U) << command;
    EXPECT_EQ(first_file(one).at("path").as_text(), "a.pth");
  }
}

TEST(Json, OfAnAnswerForAllFilesTogetherIsOneObject) {
  TempDir dir;
  write_model(dir, "a.pth", {"x"});
  Outcome outcome = run_ckpt(dir.path(), {"avg", "--json", "a.pth", "a.pth", "-o", "mean.pth"});
  EXPECT_EQ(JsonDocument::parse(outcome.out).root().at("inputs").items().size(), 2U) << outcome.out;
}

TEST(Json, ErrorsAreOneObject) {
  TempDir dir;
  Outcome outcome = run_ckpt(dir.path(), {"ls", "--json", "no.pth"});
  EXPECT_EQ(outcome.code, 4);
  EXPECT_EQ(outcome.out, "");
  JsonDocument json = JsonDocument::parse(outcome.err);
  EXPECT_EQ(json.root().at("schema").as_integer(), 2);
  ckpt::JsonView error = json.root().at("error");
  EXPECT_EQ(error.at("code").as_text(), "io");
  EXPECT_EQ(error.at("exit").as_integer(), 4);
  EXPECT_EQ(error.at("message").as_text(), "no.pth: cannot open: no such file or folder");
  EXPECT_EQ(error.at("subject").items().front().as_text(), "no.pth");
  Outcome usage = run_ckpt(dir.path(), {"ls", "--json", "--no-such-option"});
  EXPECT_EQ(JsonDocument::parse(usage.err).root().at("error").at("code").as_text(), "usage");
  EXPECT_EQ(usage.code, 2);
}

TEST(JsonLines, AreTheFileThenEachItemOfItsLists) {
  EXPECT_EQ(cli::json_lines(R"({"schema":1,"path":"a","n":18446744073709551615,"tensors":[{"name":"w","shape":[1,2]},)"
                            R"({"name":"b","x":null}],"warnings":["old"],"dropped":[],"stat":{"f":1.5,"t":true}})"),
            R"({"schema":1,"path":"a","n":18446744073709551615,"tensors":2,"warnings":1,"dropped":0,)"
            R"("stat":{"f":1.5,"t":true}})"
            "\n"
            R"({"of":"tensors","name":"w","shape":[1,2]})"
            "\n"
            R"({"of":"tensors","name":"b","x":null})"
            "\n"
            R"({"of":"warnings","value":"old"})"
            "\n");
}

TEST(JsonLines, ComeForEveryCommandAndEveryFile) {
  TempDir dir;
  write_checkpoint(dir.path() / "net.pth", dict({{"w", tensor({1, 2})}, {"epoch", ckpt::Value::integer(3)}}));
  write_checkpoint(dir.path() / "b.pth", dict({{"w", tensor({1, 3})}}));
  Outcome listed = run_ckpt(dir.path(), {"ls", "--jsonl", "net.pth", "b.pth"});
  std::vector<std::string> starts;
  std::istringstream lines(listed.out);
  for (std::string line; std::getline(lines, line);) {
    JsonDocument item = JsonDocument::parse(line);
    const char* first = item.root().has("of") ? "of" : "path";
    starts.emplace_back(item.root().at(first).as_text());
  }
  EXPECT_EQ(starts, (std::vector<std::string>{"net.pth", "tensors", "values", "b.pth", "tensors"}));
  EXPECT_THAT(run_ckpt(dir.path(), {"ls", "--jsonl", "b.pth"}).out, testing::HasSubstr("\"path\":\"b.pth\""));
  Outcome differ = run_ckpt(dir.path(), {"diff", "--jsonl", "net.pth", "b.pth"});
  EXPECT_EQ(differ.code, 1);
  EXPECT_NE(differ.out.find("{\"of\":\"differences\","), std::string::npos) << differ.out;
  EXPECT_EQ(run_ckpt(dir.path(), {"ls", "--jsonl", "--json", "net.pth"}).code, 2);
}

TEST(ShortenMiddle, KeepsBothEndsAndWholeCharacters) {
  EXPECT_EQ(cli::shorten_middle("abc", 3), "abc");
  EXPECT_EQ(cli::shorten_middle("abcdefghij", 6, ".."), "ab..ij");
  EXPECT_EQ(cli::shorten_middle("abcdefghij", 7, ".."), "ab..hij");
  EXPECT_EQ(cli::shorten_middle("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f\xc3\xa4", 3, "."), "\xc3\xa4.\xc3\xa4");
  EXPECT_EQ(cli::shorten_middle("abcdef", 1, ".."), "..");
}

TEST(CountAndSize, SaysTheMagnitude) {
  EXPECT_EQ(cli::count_and_size(999), "999");
  EXPECT_EQ(cli::count_and_size(1000), "1,000 (1.0 k)");
  EXPECT_EQ(cli::count_and_size(25'557'032), "25,557,032 (25.6 M)");
  EXPECT_EQ(cli::count_and_size(999'999), "999,999 (1.0 M)");
  EXPECT_EQ(cli::count_and_size(175'000'000'000), "175,000,000,000 (175 B)");
}
