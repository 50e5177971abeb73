#include "zoo/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"

namespace {

TEST(Zoo, EveryModelOfTheListCanBeMade) {
  for (const zoo::Model& model : zoo::list()) EXPECT_FALSE(zoo::make(model.name)->state_dict().empty()) << model.name;
}

TEST(Zoo, AnUnknownNameListsTheKnownOnes) {
  try {
    zoo::make("lenet");
    FAIL();
  } catch (const core::Error& error) {
    EXPECT_STREQ(error.what(), "no model is named 'lenet'; there are lenet5, mlp");
    EXPECT_EQ(error.code(), core::ErrorCode::usage);
  }
}

}  // namespace
