// What the tool says of the options that would help.
#include "tools/ckpt/hints.h"

#include <gtest/gtest.h>

namespace {

using ckpt::Hint;
using Option = Hint::Option;

std::string said(const std::string& text, std::vector<Hint::Use> options) {
  return cli::with_advice("no", Hint{text, std::move(options)});
}

TEST(Hints, NameTheFlags) {
  EXPECT_EQ(said("{} reads the first", {{Option::lenient}}), "no; --lenient reads the first");
  EXPECT_EQ(said("{} reads what it leads to", {{Option::allow_symlinks}}),
            "no; --allow-symlinks reads what it leads to");
  EXPECT_EQ(said("read it with {}", {{Option::unsandboxed}}), "no; read it with --unsandboxed");
  EXPECT_EQ(said("{} allows more", {{Option::max_expansion}}), "no; --max-expansion allows more");
  EXPECT_EQ(said("take {}, drop them ({})", {{Option::part}, {Option::drop_inexpressible}}),
            "no; take FILE::NAME, drop them (--drop)");
}

TEST(Hints, NameThePartThatSuggestsItself) {
  EXPECT_EQ(said("name one, as in {}", {{.option = Option::part, .name = "model"}}), "no; name one, as in FILE::model");
}

TEST(Hints, NameCommandsAndTheirFlags) {
  EXPECT_EQ(said("name one with {}, or use {}", {{Option::average}, {Option::no_average}}),
            "no; name one with --ema, or use --ema off");
  EXPECT_EQ(said("{} writes another file", {{Option::output}}), "no; -o writes another file");
  EXPECT_EQ(said("run {} or {}", {{Option::reindex}, {Option::rescue}}), "no; run 'ckpt reindex' or 'ckpt rescue'");
}

TEST(Hints, NameThePairOfTypesWhereThereIsOne) {
  EXPECT_EQ(said("{}", {{Option::retype, core::DType::bf16, core::DType::f32}}), "no; --retype bf16=f32");
  EXPECT_EQ(said("{}", {{Option::retype}}), "no; --retype OLD=NEW");
}

TEST(Hints, AreNotMadeUp) {
  EXPECT_EQ(cli::with_advice("no", std::nullopt), "no");
}

}  // namespace
