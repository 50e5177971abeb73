#include "libcore/tensorboard/summary_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "libcore/base/error.h"
#include "libcore/tensor/factory.h"
#include "tests/libcore/tensorboard/event_reader.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"

namespace {

using core::Tensor;
using core::tensorboard::SummaryWriter;
using test::Message;
using testing::ElementsAre;

// Fields of TensorBoard's messages that are used here.
constexpr int kStep = 2, kVersion = 3, kSummary = 5, kSession = 7, kValue = 1;

Message value_of(const Message& event) {
  return event.at(kSummary).at(kValue);
}

class Events : public testing::Test {
 protected:
  std::string folder() const { return (dir_.path() / "run").string(); }
  std::vector<Message> only_file(const std::string& name = "run") const {
    const auto names = test::list_folder(dir_.path() / name);
    for (const std::string& file : names) {
      if (file.starts_with("events.out.")) return test::read_events(dir_.path() / name / file);
    }
    return {};
  }
  test::TempDir dir_;
};

TEST_F(Events, ChecksumIsCastagnoli) {
  EXPECT_EQ(test::slow_crc32c("123456789"), 0xe3069283u);
}

TEST_F(Events, FileBeginsWithItsVersionAndHasPyTorchsName) {
  SummaryWriter writer(folder(), {.filename_suffix = ".mine"});
  writer.close();
  const auto names = test::list_folder(folder());
  ASSERT_EQ(names.size(), 1U);
  EXPECT_TRUE(std::regex_match(names[0], std::regex(R"(events\.out\.tfevents\.\d{10}\..+\.\d+\.\d+\.mine)")))
      << names[0];
  const auto events = only_file();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].bytes(kVersion), "brain.Event:2");
}

TEST_F(Events, ScalarHasStepAndTime) {
  SummaryWriter writer(folder());
  writer.add_scalar("loss", 0.25, 300, 12.5);
  writer.add_scalar("loss", core::full({1, 1}, 2.0));
  writer.flush();
  const auto events = only_file();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[1].real(1), 12.5);
  EXPECT_EQ(events[1].integer(kStep), 300);
  EXPECT_EQ(value_of(events[1]).bytes(1), "loss");
  EXPECT_EQ(value_of(events[1]).real32(2), 0.25F);
  EXPECT_FALSE(events[2].has(kStep));
  EXPECT_EQ(value_of(events[2]).real32(2), 2.0F);
  EXPECT_THAT(test::message_of([&] { writer.add_scalar("loss", core::ones({2})); }), testing::HasSubstr("one element"));
}

TEST_F(Events, ScalarsHaveAFolderEach) {
  SummaryWriter writer(folder());
  writer.add_scalars("both/of", {{"a", 1}, {"b", 2}}, 1);
  writer.close();
  EXPECT_EQ(value_of(only_file("run/both_of_a").at(1)).real32(2), 1.0F);
  EXPECT_EQ(value_of(only_file("run/both_of_b").at(1)).bytes(1), "both/of");
}

TEST_F(Events, HistogramKeepsTheBinsThatHoldSomething) {
  SummaryWriter writer(folder());
  const Tensor x = core::tensor({0.5, 1.0, 1.5, 3.0, 7.0});
  writer.add_histogram("h", x, 1, {.bins = {-1, 0, 1, 2, 3}});
  writer.flush();
  const Message h = value_of(only_file().at(1)).at(5);
  EXPECT_THAT(h.reals(6), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(h.reals(7), ElementsAre(0, 1, 2, 1));
  EXPECT_EQ(h.real(1), 0.5);
  EXPECT_EQ(h.real(2), 7);
  EXPECT_EQ(h.real(3), 5);
  EXPECT_EQ(h.real(4), 13);
  EXPECT_EQ(test::message_of([&] { writer.add_histogram("h", core::zeros({0})); }), "The input has no element.");
}

TEST_F(Events, PurgeStepStartsASession) {
  SummaryWriter writer(folder(), {.purge_step = 7});
  writer.close();
  const auto events = only_file();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[2].integer(kStep), 7);
  EXPECT_EQ(events[2].at(kSession).integer(1), 1);
}

TEST_F(Events, QueueIsWrittenWhenItIsFull) {
  SummaryWriter writer(folder(), {.max_queue = 2});
  writer.add_scalar("a", 1.0);
  EXPECT_EQ(only_file().size(), 1U);
  writer.add_scalar("a", 2.0);
  EXPECT_EQ(only_file().size(), 3U);
}

TEST_F(Events, WhatComesAfterCloseIsInANewFile) {
  SummaryWriter writer(folder());
  writer.close();
  EXPECT_EQ(writer.file_path(), "");
  writer.add_scalar("a", 1.0);
  writer.close();
  EXPECT_EQ(test::list_folder(folder()).size(), 2U);
}

TEST_F(Events, FolderThatIsAFileIsAnError) {
  test::write_file(folder(), "x");
  EXPECT_THAT(test::message_of([&] { SummaryWriter writer(folder()); }),
              testing::HasSubstr("run: the folder cannot be made"));
}

TEST_F(Events, ImageFormatsThatDoNotFitAreErrors) {
  SummaryWriter writer(folder());
  const auto message = [&](const Tensor& x, const std::string& formats) {
    return test::message_of([&] { writer.add_image("i", x, {}, {.dataformats = formats}); });
  };
  EXPECT_THAT(message(core::zeros({3, 2}), "CHW"), testing::HasSubstr("size of input tensor and input format"));
  EXPECT_THAT(message(core::zeros({3, 2, 2}), "HHW"), testing::HasSubstr("same dimension shorthand twice"));
  EXPECT_THAT(message(core::zeros({5, 2, 2}), "CHW"), testing::HasSubstr("1 to 4 channels"));
}

}  // namespace
