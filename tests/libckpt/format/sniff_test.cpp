#include "libckpt/format/sniff.h"

#include <gtest/gtest.h>

#include "libcore/base/error.h"

namespace {

ckpt::Input input_of(std::string_view content) {
  core::Bytes bytes = core::as_bytes(content);
  ckpt::Input input{"x", ckpt::memory_source({bytes.begin(), bytes.end()}), {bytes.begin(), bytes.end()}, nullptr};
  input.head.resize(std::min<std::size_t>(input.head.size(), 4096));
  return input;
}

std::string said_of(std::string_view content) {
  return ckpt::describe_foreign(input_of(content));
}

using testing::HasSubstr;

TEST(Sniff, LfsPointerSaysWhatIsMissingAndWhatToDo) {
  std::string said = said_of("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1073741824\n");
  EXPECT_THAT(said, HasSubstr("git-LFS pointer to 1.0 GiB"));
  EXPECT_THAT(said, HasSubstr("git lfs pull"));
}

TEST(Sniff, TextsThatDownloadsLeave) {
  EXPECT_THAT(said_of("\xef\xbb\xbf  <!DOCTYPE html><html>"), HasSubstr("HTML page"));
  EXPECT_THAT(said_of("<?xml version=\"1.0\"?><Error>"), HasSubstr("XML document"));
  EXPECT_THAT(said_of("{\"error\": \"not found\"}"), HasSubstr("JSON text"));
  EXPECT_THAT(said_of("hello"), HasSubstr("text, not weights"));
  EXPECT_THAT(said_of(""), HasSubstr("empty (0 bytes)"));
  EXPECT_THAT(said_of(std::string(5000, '\0')), HasSubstr("zeros only"));
}

TEST(Sniff, OtherContainers) {
  EXPECT_THAT(said_of("\x1f\x8b\x08"), HasSubstr("gunzip"));
  EXPECT_THAT(said_of(std::string("\x5d\0\0\x80", 4)), HasSubstr("unlzma"));
  EXPECT_THAT(said_of("\x04\x22\x4d\x18"), HasSubstr("unlz4"));
  EXPECT_THAT(said_of("\x80\x04\x95"), HasSubstr("bare pickle"));
  std::string tar(257, '\x01');
  tar += "ustar";
  EXPECT_THAT(said_of(tar), HasSubstr("tar archive"));
  EXPECT_THAT(said_of("\x01\x02\x03\x04"), HasSubstr("no known checkpoint format"));
}

TEST(Sniff, ModelsOfOtherFrameworksAndTheWayOut) {
  EXPECT_THAT(said_of(std::string("\x1c\0\0\0TFL3", 8)), HasSubstr("python -m tf2onnx.convert --tflite"));
  EXPECT_THAT(said_of(std::string("\x1c\0\0\0ET12", 8)),
              HasSubstr("ExecuTorch program, which is not read; save the state_dict of the module"));
  EXPECT_THAT(said_of(std::string(40, '\1') + "\x57\xfb\x80\x8b\x24\x75\x47\xdb"),
              HasSubstr("tf.train.load_checkpoint"));
  ckpt::Input model = input_of("\x08\x04\x12");
  model.path = "net.mlmodel";
  EXPECT_THAT(ckpt::describe_foreign(model),
              HasSubstr("Core ML model, which is not read; save the weights of the model"));
  ckpt::Input values = input_of("\x01\x02");
  values.path = "variables.data-00000-of-00001";
  EXPECT_THAT(ckpt::describe_foreign(values), HasSubstr("tf.train.load_checkpoint"));
}

TEST(Sniff, ContentOfAMessageCannotMoveTheCursor) {
  EXPECT_EQ(said_of("hi\n\r\tthere").find('\n'), std::string::npos);
}

TEST(Registry, DetectsByContentAndSaysWhatItIsInstead) {
  EXPECT_EQ(ckpt::detect_format(input_of(std::string("\x02\0\0\0\0\0\0\0{}", 10))).name, "safetensors");
  EXPECT_EQ(ckpt::detect_format(input_of(R"({"weight_map":{"a":"b.safetensors"}})")).name, "safetensors-sharded");
  EXPECT_THROW(ckpt::detect_format(input_of("hello")), core::Error);
  EXPECT_THROW(ckpt::detect_format(input_of("var a = {\"b\": 1}")), core::Error);
}

TEST(Registry, TargetsByExtension) {
  EXPECT_EQ(ckpt::find_format_for("x/Model.SafeTensors")->name, "safetensors");
  EXPECT_EQ(ckpt::find_format_for("m.safetensors.index.json")->name, "safetensors-sharded");
  EXPECT_EQ(ckpt::find_format_for("m.txt"), nullptr);
  EXPECT_EQ(ckpt::find_format("no such format"), nullptr);
}

TEST(Registry, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (const ckpt::Format* format : ckpt::formats()) {
    EXPECT_TRUE(names.insert(format->name).second) << format->name;
    EXPECT_NE(format->read, nullptr);
    EXPECT_EQ(format->write == nullptr, format->obstacles == nullptr) << format->name;
  }
}

}  // namespace
