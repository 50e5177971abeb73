// Images on their way into a model. Expected pixels are those of Pillow 13, expected values those of PyTorch 2.15.

#include "zoo/data/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libcore/base/error.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "tests/support/picture.h"
#include "zoo/data/ppm.h"
#include "zoo/preprocessing.h"
#include "zoo/zoo.h"

namespace {

using test::picture;
using test::pixel_hash;
using testing::ElementsAre;
using testing::HasSubstr;
using zoo::Image;
using zoo::Interpolation;
using zoo::resize;

constexpr auto kBicubic = Interpolation::bicubic;

std::string message(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return std::string(core::name(error.code())) + ": " + error.what();
  }
  return "no error";
}

TEST(Resize, ShrinksAsPillow) {
  EXPECT_THAT(resize(picture(7, 5, 1), {.width = 4, .height = 3}).pixels,
              ElementsAre(6, 50, 159, 156, 107, 126, 146, 135, 122, 136, 120, 138));
  EXPECT_THAT(resize(picture(7, 5, 1), {.width = 4, .height = 3, .interpolation = kBicubic}).pixels,
              ElementsAre(0, 45, 165, 157, 110, 129, 152, 138, 126, 138, 116, 139));
}

TEST(Resize, EnlargesAsPillow) {
  EXPECT_EQ(pixel_hash(resize(picture(5, 4, 1), {.width = 8, .height = 6})), 0x57f53399e532d704U);
  EXPECT_EQ(pixel_hash(resize(picture(5, 4, 1), {.width = 8, .height = 6, .interpolation = kBicubic})),
            0xb9e204376e9458dbU);
  EXPECT_EQ(pixel_hash(resize(picture(31, 90, 3), {.width = 224, .height = 650})), 0x32539ea0c59b08c5U);
  EXPECT_EQ(pixel_hash(resize(picture(31, 90, 3), {.width = 224, .height = 650, .interpolation = kBicubic})),
            0x9f8802e7ccbbdbddU);
}

TEST(Resize, TakesRowsFirstWhereManyGo) {
  EXPECT_EQ(pixel_hash(resize(picture(37, 90, 3), {.width = 29, .height = 31})), 0x27117b5c1bcfcf93U);
  EXPECT_EQ(pixel_hash(resize(picture(37, 90, 3), {.width = 29, .height = 31, .interpolation = kBicubic})),
            0xfb9dbedede796d75U);
  EXPECT_EQ(pixel_hash(resize(picture(20, 50, 3), {.width = 33, .height = 40, .interpolation = kBicubic})),
            0xf29a1f068bcc91c2U);
  // Twice as many rows go as columns, and one more.
  EXPECT_EQ(pixel_hash(resize(picture(40, 90, 3), {.width = 20, .height = 50})), 0xf9b3ee18f6998aeeU);
  EXPECT_EQ(pixel_hash(resize(picture(40, 90, 3), {.width = 20, .height = 49})), 0xe9fb0e772d6669f7U);
}

TEST(Resize, EqualsPillowOnPhotographSizes) {
  EXPECT_EQ(pixel_hash(resize(picture(61, 37, 3), {.width = 29, .height = 17})), 0x8bbe18f012a78135U);
  EXPECT_EQ(pixel_hash(resize(picture(61, 37, 3), {.width = 29, .height = 17, .interpolation = kBicubic})),
            0xbeaf46e5ec81c329U);
  EXPECT_EQ(pixel_hash(resize(picture(640, 427, 3), {.width = 383, .height = 256})), 0x5a7f27bff16e44f9U);
  EXPECT_EQ(pixel_hash(resize(picture(640, 427, 3), {.width = 347, .height = 232, .interpolation = kBicubic})),
            0xb9e8fa40cd7de2feU);
}

TEST(Resize, LeavesAnImageOfTheRightSizeAlone) {
  EXPECT_EQ(resize(picture(7, 5, 3), {.width = 7, .height = 5}).pixels, picture(7, 5, 3).pixels);
}

TEST(Resize, RefusesASizeThatNoMemoryHolds) {
  const zoo::Image image = picture(7, 5, 3);
  for (const auto& [width, height] :
       {std::pair(2'000'000'000, 5), std::pair(7, 2'000'000'000), std::pair(40'000'000, 1)}) {
    EXPECT_THAT(message([&] { resize(image, {.width = width, .height = height}); }), HasSubstr("refused: an image of "))
        << width << " x " << height;
  }
}

TEST(Grey, IsPillowsWeightedSum) {
  EXPECT_EQ(pixel_hash(zoo::to_grey(picture(9, 4, 3))), 0x191481c03535b6c7U);
  EXPECT_EQ(zoo::to_grey(zoo::to_rgb(picture(9, 4, 1))).pixels, picture(9, 4, 1).pixels);
}

TEST(ShorterSide, RoundsTheLongerOneDown) {
  EXPECT_EQ(zoo::shorter_side(picture(640, 427, 3), 256).width, 383);
  EXPECT_EQ(zoo::shorter_side(picture(640, 427, 3), 256).height, 256);
  EXPECT_EQ(zoo::shorter_side(picture(31, 90, 3), 224).height, 650);
}

TEST(ShorterSide, RefusesASizeThatNoMemoryHolds) {
  EXPECT_THAT(message([] { zoo::shorter_side(picture(1, 30000, 1), 256); }),
              HasSubstr("refused: an image of 1 x 30000 pixels is too narrow to be enlarged to 256 pixels"));
}

TEST(CenterCrop, PutsAHalfPixelWherePythonsRoundDoes) {
  Image row = zoo::make_image(9, 1, 1);
  for (int x = 0; x < 9; ++x) row.pixels[static_cast<std::size_t>(x)] = static_cast<std::uint8_t>(x);
  EXPECT_THAT(zoo::center_crop(row, 8, 1).pixels, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));  // round(0.5) is 0
  EXPECT_THAT(zoo::center_crop(row, 6, 1).pixels, ElementsAre(2, 3, 4, 5, 6, 7));        // round(1.5) is 2
  EXPECT_THAT(zoo::center_crop(row, 4, 1).pixels, ElementsAre(2, 3, 4, 5));              // round(2.5) is 2
  EXPECT_THAT(zoo::center_crop(row, 3, 1).pixels, ElementsAre(3, 4, 5));
}

TEST(Ppm, ReadsBytesAndNumbers) {
  EXPECT_EQ(zoo::parse_ppm(core::as_bytes(test::ppm_text(picture(9, 4, 3)))).pixels, picture(9, 4, 3).pixels);
  EXPECT_EQ(zoo::parse_ppm(core::as_bytes(test::ppm_text(picture(9, 4, 1)))).pixels, picture(9, 4, 1).pixels);
  const Image text = zoo::parse_ppm(core::as_bytes("P3 # colours\n2 1\n#\n255\n1 2 3\n250 251 252"));
  EXPECT_EQ(text.channels, 3);
  EXPECT_THAT(text.pixels, ElementsAre(1, 2, 3, 250, 251, 252));
}

TEST(Ppm, BringsOtherRangesTo255) {
  EXPECT_THAT(zoo::parse_ppm(core::as_bytes("P2 3 1 15 0 7 15")).pixels, ElementsAre(0, 119, 255));
  using namespace std::string_view_literals;
  EXPECT_THAT(zoo::parse_ppm(core::as_bytes("P5 2 1 65535 \xff\xff\x80\x00"sv)).pixels, ElementsAre(255, 128));
}

TEST(Ppm, ChecksEveryFieldOfTheHeader) {
  auto error = [](std::string_view text) { return message([&] { zoo::parse_ppm(core::as_bytes(text)); }); };
  EXPECT_EQ(error("GIF89a"), "corrupt: no PPM or PGM image");
  EXPECT_EQ(error("P4 8 1 \xff"), "unsupported: Netpbm's form P4 is not read; P2, P3, P5 and P6 are");
  EXPECT_EQ(error("P6"), "corrupt: cut off before its width");
  EXPECT_EQ(error("P6 # only a comment"), "corrupt: cut off before its width");
  EXPECT_EQ(error("P6 2"), "corrupt: cut off before its height");
  EXPECT_EQ(error("P6 2 2"), "corrupt: cut off before its largest value");
  EXPECT_EQ(error("P6 -2 2 255 "), "corrupt: its width is not a number");
  EXPECT_EQ(error("P6 99999999999999999999 1 255 "), "corrupt: its width is not a sensible number");
  EXPECT_EQ(error("P6 0 2 255 "), "corrupt: an image of 0 x 2 pixels has no content");
  EXPECT_EQ(error("P6 1 1 0 abc"), "corrupt: its largest value is 0; 1 to 65535 are possible");
  EXPECT_EQ(error("P6 1 1 65536 abcdef"), "corrupt: its largest value is 65536; 1 to 65535 are possible");
  EXPECT_EQ(error("P6 1 1 255"), "corrupt: cut off after its header");
  EXPECT_EQ(error("P6 1 1 255#abc"), "corrupt: its header does not end in a space");
  EXPECT_EQ(error("P6 100000 100000 255 abc"),
            "refused: an image of 100000 x 100000 pixels; at most 178956970 are read");
}

TEST(Ppm, ChecksTheValues) {
  auto error = [](std::string_view text) { return message([&] { zoo::parse_ppm(core::as_bytes(text)); }); };
  EXPECT_EQ(error("P6 2 1 255 abcd"), "corrupt: cut off: at most 4 of the 6 values of an image of 2 x 1 pixels");
  EXPECT_EQ(error("P5 1 1 100 z"), "corrupt: holds the value 122 where its header says at most 100");
  EXPECT_EQ(error("P2 2 1 9 5 x"), "corrupt: its next value is not a number");
  EXPECT_EQ(error("P2 2 1 9 55"), "corrupt: holds the value 55 where its header says at most 9");
  EXPECT_EQ(error("P2 2 1 9 5 "), "corrupt: cut off before its next value");
}

TEST(Preprocessing, IsTheOneOfTheModelsWeights) {
  EXPECT_EQ(zoo::preprocessing("resnet18")->resize, 256);
  EXPECT_EQ(zoo::preprocessing("resnet18")->crop, 224);
  EXPECT_EQ(zoo::preprocessing("inception_v3")->crop, 299);
  EXPECT_EQ(zoo::preprocessing("convnext_tiny")->resize, 236);
  EXPECT_EQ(zoo::preprocessing("swin_t")->resize, 232);
  EXPECT_EQ(zoo::preprocessing("swin_t")->interpolation, kBicubic);
  EXPECT_EQ(zoo::preprocessing("efficientnet_b4")->crop, 380);
  EXPECT_EQ(zoo::preprocessing("mnist_net")->channels, 1);
  EXPECT_EQ(zoo::preprocessing("fcn_resnet50")->crop, 0);
}

TEST(Preprocessing, FollowsTheVersionOfPublishedWeights) {
  EXPECT_EQ(zoo::preprocessing("resnet50", "resnet50-0676ba61.pth")->resize, 256);
  EXPECT_EQ(zoo::preprocessing("resnet50", "resnet50-11ad3fa6.pth")->resize, 232);
  EXPECT_EQ(zoo::preprocessing("resnet18", "resnet50-11ad3fa6.pth")->resize, 256);
}

TEST(Preprocessing, IsKnownForEveryModelOfImages) {
  std::vector<std::string> others;
  for (const zoo::Model& model : zoo::list()) {
    if (!zoo::preprocessing(model.name)) others.emplace_back(model.name);
  }
  EXPECT_THAT(others,
              ElementsAre("simple_rnn", "step_rnn", "char_lstm", "char_lstm_2_layers", "char_gru", "bilstm_classifier",
                          "encoder_classifier", "encoder_classifier_prenorm", "word2vec", "gpt2", "gpt2_medium",
                          "gpt2_large", "gpt2_xl", "distilgpt2", "nanogpt_gpt2", "nanogpt_shakespeare_char",
                          "bert_base", "bert_large", "bert_base_masked_lm", "bert_base_pretraining",
                          "bert_base_classifier", "roberta_base", "distilbert_base", "llama_1b_shape", "llama_7b_shape",
                          "llama_3_1b_shape", "llama_3_8b_shape", "mistral_7b_shape", "qwen2_half_b_shape",
                          "gemma_2_2b_shape", "t5_small", "whisper_tiny", "clip_base_patch32"));
  EXPECT_FALSE(zoo::preprocessing("resnet1000"));
}

TEST(Preprocess, GivesTheValuesOfTorchvision) {
  const core::Tensor x = zoo::preprocess(picture(61, 37, 3), *zoo::preprocessing("cifar_net"));
  EXPECT_EQ(x.sizes(), (core::Shape{3, 32, 32}));
  EXPECT_FLOAT_EQ(x.to_vector<float>()[0], 0.20000004768371582F);
  EXPECT_FLOAT_EQ(x.to_vector<float>()[3], -0.5372549295425415F);
  EXPECT_NEAR(x.to(core::DType::f64).sum().item<double>(), -4.745019018650055, 1e-6);
  const core::Tensor upright = zoo::preprocess(picture(40, 90, 3), *zoo::preprocessing("cifar_net"));
  EXPECT_NEAR(upright.to(core::DType::f64).sum().item<double>(), 12.117730617523193, 1e-6);
}

TEST(Preprocess, SquashesWhereTheModelWasTrainedSo) {
  const core::Tensor x = zoo::preprocess(picture(61, 37, 1), *zoo::preprocessing("hf_vit_base"));
  EXPECT_EQ(x.sizes(), (core::Shape{3, 224, 224}));
}

TEST(Preprocess, KeepsTheRatioWhereNothingIsCut) {
  const core::Tensor x = zoo::preprocess(picture(61, 37, 3), {.resize = 74, .crop = 0});
  EXPECT_EQ(x.sizes(), (core::Shape{3, 74, 122}));
}

TEST(Preprocess, RefusesToCutMoreThanThereIs) {
  EXPECT_EQ(message([] { zoo::preprocess(picture(9, 4, 3), {.resize = 100}); }),
            "usage: no 224 pixels can be cut out of 100");
}

TEST(Preprocessing, DescribesItself) {
  EXPECT_EQ(zoo::describe(*zoo::preprocessing("swin_t")),
            "shorter side to 232 (bicubic), middle 224 x 224, mean 0.485 0.456 0.406, std 0.229 0.224 0.225");
  EXPECT_EQ(zoo::describe(*zoo::preprocessing("mnist_net")),
            "grey, shorter side to 28 (bilinear), middle 28 x 28, mean 0.1307, std 0.3081");
}

}  // namespace
