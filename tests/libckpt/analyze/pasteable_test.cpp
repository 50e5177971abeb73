#include "libckpt/analyze/pasteable.h"

#include <gtest/gtest.h>

#include "libckpt/transform/glob.h"
#include "libckpt/transform/selector.h"

using namespace std::string_literals;

TEST(Pasteable, ShellWordsTakeNothingForMoreThanText) {
  EXPECT_EQ(ckpt::shell_word("net.pth"), "net.pth");
  EXPECT_EQ(ckpt::shell_word("my net.pth"), "'my net.pth'");
  EXPECT_EQ(ckpt::shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(ckpt::shell_word(""), "''");
  EXPECT_EQ(ckpt::shell_word("$(id)`id`~!*"), "'$(id)`id`~!*'");
  EXPECT_EQ(ckpt::shell_word("a\\"), "'a\\'");
  EXPECT_EQ(ckpt::shell_word("=ls"), "'=ls'");
}

TEST(Pasteable, ShellWordsShowNoControlCharacter) {
  EXPECT_EQ(ckpt::shell_word("a\nb"), "$'a\\012b'");
  EXPECT_EQ(ckpt::shell_word("\x1b[31m'\\"), "$'\\033[31m\\047\\134'");  // no quote inside: dash finds the end
  EXPECT_EQ(ckpt::shell_word("\xe2\x80\xae"), "$'\\342\\200\\256'");
  EXPECT_EQ(ckpt::shell_word("\xff"), "$'\\377'");
}

TEST(Pasteable, FilesAreNoOptions) {
  EXPECT_EQ(ckpt::shell_file("-o x.pth"), "'./-o x.pth'");
  EXPECT_EQ(ckpt::shell_file("-"), "-");
  EXPECT_EQ(ckpt::shell_file("[a]"), "'./[a]'");
  EXPECT_EQ(ckpt::ShellCommand("ckpt").word("fix").file("a b").option("--prefix", "-x.").file_option("-o", "-y").text(),
            "ckpt fix 'a b' --prefix=-x. -o ./-y");
}

TEST(Pasteable, CommandsSayThatNoArgumentHoldsANul) {
  EXPECT_TRUE(ckpt::ShellCommand("ckpt").option("--prefix", "a.").is_exact());
  EXPECT_FALSE(ckpt::ShellCommand("ckpt").option("--prefix", "a\0b."s).is_exact());
  EXPECT_EQ(ckpt::ShellCommand("ckpt").word("a\0b"s).text(), "ckpt $'a\\000b'");
}

TEST(Pasteable, PythonTextsAreOneLiteral) {
  EXPECT_EQ(ckpt::python_text("module."), "'module.'");
  EXPECT_EQ(ckpt::python_text("'\\\n\r\t"), "'\\'\\\\\\n\\r\\t'");
  EXPECT_EQ(ckpt::python_text("\0\x1b\x7f"s), "'\\x00\\x1b\\x7f'");
  EXPECT_EQ(ckpt::python_text("\xe2\x80\xae\xf3\xa0\x81\x81"), "'\\u202e\\U000e0041'");
  EXPECT_EQ(ckpt::python_text("\xff"), "'\\udcff'");
  EXPECT_EQ(ckpt::python_text("\xed\xa0\x80"), "'\\ud800'");
  EXPECT_EQ(ckpt::python_path("\xed\xa0\x80"), "'\\udced\\udca0\\udc80'");
  EXPECT_EQ(ckpt::python_text("é\xf0\x9f\x98\x80"), "'é\xf0\x9f\x98\x80'");
}

TEST(Pasteable, PythonExpressionsMatchTheTextAlone) {
  EXPECT_EQ(ckpt::python_raw("^" + ckpt::python_pattern("a.b")), "r'^a\\.b'");
  EXPECT_EQ(ckpt::python_raw(ckpt::python_pattern("a'b")), "'a\\'b'");
  EXPECT_EQ(ckpt::python_raw("a\\"), "'a\\\\'");
  EXPECT_EQ(ckpt::python_replacement("\\1"), "\\\\1");
}

TEST(Pasteable, SelectorsMatchTheKeyAlone) {
  for (const std::string& key : {"*"s, "a[b]"s, "{x}"s, "@dtype=f32"s, "re:.*"s, "a b"s, "\\"s, "a\tb"s, "a\\ b"s, "?"s,
                                 "**"s, "\n"s, " "s, "é"s}) {
    ckpt::Selector selector = ckpt::Selector::parse(ckpt::selector_of(key));
    EXPECT_TRUE(selector.matches(key, {})) << key;
    EXPECT_FALSE(selector.matches(key + "x", {})) << key;
    EXPECT_FALSE(selector.matches("abc", {})) << key;
  }
}

TEST(Pasteable, PatternsOfGitLfsAreNoLists) {
  EXPECT_EQ(ckpt::lfs_pattern("net.pth"), "net.pth");
  EXPECT_EQ(ckpt::lfs_pattern("a,b*.pth "), "a?b\\*.pth?");
  EXPECT_EQ(ckpt::lfs_pattern("!a"), "\\!a");
}
