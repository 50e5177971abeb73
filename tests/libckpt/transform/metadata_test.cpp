// File-level metadata: set, unset, cleared, and what is refused.

#include "libckpt/transform/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"

using Pairs = std::vector<std::pair<std::string, std::string>>;

namespace {

ckpt::Checkpoint with(Pairs metadata) {
  ckpt::Checkpoint checkpoint;
  checkpoint.metadata = std::move(metadata);
  return checkpoint;
}

core::ErrorCode code_of(const ckpt::Checkpoint& checkpoint, const ckpt::MetadataEdit& edit, const std::string& part) {
  try {
    ckpt::edit_metadata(checkpoint, edit);
  } catch (const core::Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(part));
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return core::ErrorCode::internal;
}

}  // namespace

TEST(Metadata, IsSetInPlaceAndAppended) {
  ckpt::MetadataChanges changes;
  ckpt::Checkpoint edited =
      ckpt::edit_metadata(with({{"format", "pt"}, {"license", "GPL"}, {"same", "x"}}),
                          {.set = {{"license", "MIT"}, {"author", "me"}, {"same", "x"}}}, &changes);
  EXPECT_EQ(edited.metadata, (Pairs{{"format", "pt"}, {"license", "MIT"}, {"same", "x"}, {"author", "me"}}));
  EXPECT_EQ(changes.added, std::vector<std::string>{"author"});
  EXPECT_EQ(changes.changed, std::vector<std::string>{"license"});
  EXPECT_TRUE(changes.removed.empty());
}

TEST(Metadata, IsRemoved) {
  ckpt::MetadataChanges changes;
  ckpt::Checkpoint edited =
      ckpt::edit_metadata(with({{"a", "1"}, {"b", "2"}}), {.set = {}, .unset = {"a"}, .clear = false}, &changes);
  EXPECT_EQ(edited.metadata, (Pairs{{"b", "2"}}));
  EXPECT_EQ(changes.removed, std::vector<std::string>{"a"});
}

TEST(Metadata, IsClearedButForWhatIsSet) {
  ckpt::MetadataChanges changes;
  ckpt::Checkpoint edited = ckpt::edit_metadata(with({{"a", "1"}, {"b", "2"}, {"c", "3"}}),
                                                {.set = {{"b", "4"}}, .unset = {"a"}, .clear = true}, &changes);
  EXPECT_EQ(edited.metadata, (Pairs{{"b", "4"}}));
  EXPECT_EQ(changes.removed, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(changes.changed, std::vector<std::string>{"b"});
}

TEST(Metadata, WithoutAChangeSaysSo) {
  ckpt::MetadataChanges changes;
  ckpt::edit_metadata(with({{"a", "1"}}), {.set = {{"a", "1"}}, .unset = {}, .clear = false}, &changes);
  EXPECT_FALSE(changes.any());
}

TEST(Metadata, RefusesWhatMakesNoSense) {
  ckpt::Checkpoint two = with({{"a", "1"}, {"b", "2"}});
  EXPECT_EQ(code_of(two, {{}, {"c"}, false}, "'c'; there is 'a', 'b'"), core::ErrorCode::key);
  EXPECT_EQ(code_of(with({}), {{}, {"c"}, false}, "there is none"), core::ErrorCode::key);
  EXPECT_EQ(code_of(two, {{{"a", "x"}}, {"a"}, false}, "'a' is named twice"), core::ErrorCode::usage);
  EXPECT_EQ(code_of(two, {{{"", "x"}}, {}, false}, "empty"), core::ErrorCode::usage);
}
