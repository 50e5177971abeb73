// What images go through for every file of weights that torchvision 0.29.2 publishes for a model of the zoo.
#include "zoo/preprocessing.h"

#include <gtest/gtest.h>

#include "zoo/zoo.h"

namespace {

constexpr auto kBilinear = zoo::Interpolation::bilinear, kBicubic = zoo::Interpolation::bicubic;

/// As get_model_weights(model)'s transforms() say; crop 0: the whole image (segmentation).
struct Published {
  const char* model;
  const char* file;
  std::int64_t resize, crop;
  zoo::Interpolation interpolation;
};

constexpr Published kPublished[] = {
    {"alexnet", "alexnet-owt-7be5be79.pth", 256, 224, kBilinear},
    {"convnext_base", "convnext_base-6075fbad.pth", 232, 224, kBilinear},
    {"convnext_large", "convnext_large-ea097f82.pth", 232, 224, kBilinear},
    {"convnext_small", "convnext_small-0c510722.pth", 230, 224, kBilinear},
    {"convnext_tiny", "convnext_tiny-983f1562.pth", 236, 224, kBilinear},
    {"deeplabv3_resnet101", "deeplabv3_resnet101_coco-586e9e4e.pth", 520, 0, kBilinear},
    {"deeplabv3_resnet50", "deeplabv3_resnet50_coco-cd0a2569.pth", 520, 0, kBilinear},
    {"densenet121", "densenet121-a639ec97.pth", 256, 224, kBilinear},
    {"densenet161", "densenet161-8d451a50.pth", 256, 224, kBilinear},
    {"densenet169", "densenet169-b2777c0a.pth", 256, 224, kBilinear},
    {"densenet201", "densenet201-c1103571.pth", 256, 224, kBilinear},
    {"efficientnet_b0", "efficientnet_b0_rwightman-7f5810bc.pth", 256, 224, kBicubic},
    {"efficientnet_b1", "efficientnet_b1_rwightman-bac287d4.pth", 256, 240, kBicubic},
    {"efficientnet_b1", "efficientnet_b1-c27df63c.pth", 255, 240, kBilinear},
    {"efficientnet_b2", "efficientnet_b2_rwightman-c35c1473.pth", 288, 288, kBicubic},
    {"efficientnet_b3", "efficientnet_b3_rwightman-b3899882.pth", 320, 300, kBicubic},
    {"efficientnet_b4", "efficientnet_b4_rwightman-23ab8bcd.pth", 384, 380, kBicubic},
    {"efficientnet_b5", "efficientnet_b5_lukemelas-1a07897c.pth", 456, 456, kBicubic},
    {"efficientnet_b6", "efficientnet_b6_lukemelas-24a108a5.pth", 528, 528, kBicubic},
    {"efficientnet_b7", "efficientnet_b7_lukemelas-c5b4e57e.pth", 600, 600, kBicubic},
    {"fcn_resnet101", "fcn_resnet101_coco-7ecb50ca.pth", 520, 0, kBilinear},
    {"fcn_resnet50", "fcn_resnet50_coco-1167a1af.pth", 520, 0, kBilinear},
    {"googlenet", "googlenet-1378be20.pth", 256, 224, kBilinear},
    {"inception_v3", "inception_v3_google-0cc3c7bd.pth", 342, 299, kBilinear},
    {"mobilenet_v2", "mobilenet_v2-b0353104.pth", 256, 224, kBilinear},
    {"mobilenet_v2", "mobilenet_v2-7ebf99e0.pth", 232, 224, kBilinear},
    {"mobilenet_v3_large", "mobilenet_v3_large-8738ca79.pth", 256, 224, kBilinear},
    {"mobilenet_v3_large", "mobilenet_v3_large-5c1a4163.pth", 232, 224, kBilinear},
    {"mobilenet_v3_small", "mobilenet_v3_small-047dcff4.pth", 256, 224, kBilinear},
    {"regnet_x_16gf", "regnet_x_16gf-2007eb11.pth", 256, 224, kBilinear},
    {"regnet_x_16gf", "regnet_x_16gf-ba3796d7.pth", 232, 224, kBilinear},
    {"regnet_x_1_6gf", "regnet_x_1_6gf-e3633e7f.pth", 256, 224, kBilinear},
    {"regnet_x_1_6gf", "regnet_x_1_6gf-a12f2b72.pth", 232, 224, kBilinear},
    {"regnet_x_32gf", "regnet_x_32gf-9d47f8d0.pth", 256, 224, kBilinear},
    {"regnet_x_32gf", "regnet_x_32gf-6eb8fdc6.pth", 232, 224, kBilinear},
    {"regnet_x_3_2gf", "regnet_x_3_2gf-f342aeae.pth", 256, 224, kBilinear},
    {"regnet_x_3_2gf", "regnet_x_3_2gf-7071aa85.pth", 232, 224, kBilinear},
    {"regnet_x_400mf", "regnet_x_400mf-adf1edd5.pth", 256, 224, kBilinear},
    {"regnet_x_400mf", "regnet_x_400mf-62229a5f.pth", 232, 224, kBilinear},
    {"regnet_x_800mf", "regnet_x_800mf-ad17e45c.pth", 256, 224, kBilinear},
    {"regnet_x_800mf", "regnet_x_800mf-94a99ebd.pth", 232, 224, kBilinear},
    {"regnet_x_8gf", "regnet_x_8gf-03ceed89.pth", 256, 224, kBilinear},
    {"regnet_x_8gf", "regnet_x_8gf-2b70d774.pth", 232, 224, kBilinear},
    {"regnet_y_128gf", "regnet_y_128gf_swag-c8ce3e52.pth", 384, 384, kBicubic},
    {"regnet_y_128gf", "regnet_y_128gf_lc_swag-cbe8ce12.pth", 224, 224, kBicubic},
    {"regnet_y_16gf", "regnet_y_16gf-9e6ed7dd.pth", 256, 224, kBilinear},
    {"regnet_y_16gf", "regnet_y_16gf-3e4a00f9.pth", 232, 224, kBilinear},
    {"regnet_y_16gf", "regnet_y_16gf_swag-43afe44d.pth", 384, 384, kBicubic},
    {"regnet_y_16gf", "regnet_y_16gf_lc_swag-f3ec0043.pth", 224, 224, kBicubic},
    {"regnet_y_1_6gf", "regnet_y_1_6gf-b11a554e.pth", 256, 224, kBilinear},
    {"regnet_y_1_6gf", "regnet_y_1_6gf-0d7bc02a.pth", 232, 224, kBilinear},
    {"regnet_y_32gf", "regnet_y_32gf-4dee3f7a.pth", 256, 224, kBilinear},
    {"regnet_y_32gf", "regnet_y_32gf-8db6d4b5.pth", 232, 224, kBilinear},
    {"regnet_y_32gf", "regnet_y_32gf_swag-04fdfa75.pth", 384, 384, kBicubic},
    {"regnet_y_32gf", "regnet_y_32gf_lc_swag-e1583746.pth", 224, 224, kBicubic},
    {"regnet_y_3_2gf", "regnet_y_3_2gf-b5a9779c.pth", 256, 224, kBilinear},
    {"regnet_y_3_2gf", "regnet_y_3_2gf-9180c971.pth", 232, 224, kBilinear},
    {"regnet_y_400mf", "regnet_y_400mf-c65dace8.pth", 256, 224, kBilinear},
    {"regnet_y_400mf", "regnet_y_400mf-e6988f5f.pth", 232, 224, kBilinear},
    {"regnet_y_800mf", "regnet_y_800mf-1b27b58c.pth", 256, 224, kBilinear},
    {"regnet_y_800mf", "regnet_y_800mf-58fc7688.pth", 232, 224, kBilinear},
    {"regnet_y_8gf", "regnet_y_8gf-d0d0e4a8.pth", 256, 224, kBilinear},
    {"regnet_y_8gf", "regnet_y_8gf-dc2b1b54.pth", 232, 224, kBilinear},
    {"resnet101", "resnet101-63fe2227.pth", 256, 224, kBilinear},
    {"resnet101", "resnet101-cd907fc2.pth", 232, 224, kBilinear},
    {"resnet152", "resnet152-394f9c45.pth", 256, 224, kBilinear},
    {"resnet152", "resnet152-f82ba261.pth", 232, 224, kBilinear},
    {"resnet18", "resnet18-f37072fd.pth", 256, 224, kBilinear},
    {"resnet34", "resnet34-b627a593.pth", 256, 224, kBilinear},
    {"resnet50", "resnet50-0676ba61.pth", 256, 224, kBilinear},
    {"resnet50", "resnet50-11ad3fa6.pth", 232, 224, kBilinear},
    {"resnext101_32x8d", "resnext101_32x8d-8ba56ff5.pth", 256, 224, kBilinear},
    {"resnext101_32x8d", "resnext101_32x8d-110c445d.pth", 232, 224, kBilinear},
    {"resnext101_64x4d", "resnext101_64x4d-173b62eb.pth", 232, 224, kBilinear},
    {"resnext50_32x4d", "resnext50_32x4d-7cdf4587.pth", 256, 224, kBilinear},
    {"resnext50_32x4d", "resnext50_32x4d-1a0047aa.pth", 232, 224, kBilinear},
    {"shufflenet_v2_x0_5", "shufflenetv2_x0.5-f707e7126e.pth", 256, 224, kBilinear},
    {"shufflenet_v2_x1_0", "shufflenetv2_x1-5666bf0f80.pth", 256, 224, kBilinear},
    {"shufflenet_v2_x1_5", "shufflenetv2_x1_5-3c479a10.pth", 232, 224, kBilinear},
    {"shufflenet_v2_x2_0", "shufflenetv2_x2_0-8be3c8ee.pth", 232, 224, kBilinear},
    {"squeezenet1_0", "squeezenet1_0-b66bff10.pth", 256, 224, kBilinear},
    {"squeezenet1_1", "squeezenet1_1-b8a52dc0.pth", 256, 224, kBilinear},
    {"swin_b", "swin_b-68c6b09e.pth", 238, 224, kBicubic},
    {"swin_s", "swin_s-5e29d889.pth", 246, 224, kBicubic},
    {"swin_t", "swin_t-704ceda3.pth", 232, 224, kBicubic},
    {"vgg11", "vgg11-8a719046.pth", 256, 224, kBilinear},
    {"vgg11_bn", "vgg11_bn-6002323d.pth", 256, 224, kBilinear},
    {"vgg13", "vgg13-19584684.pth", 256, 224, kBilinear},
    {"vgg13_bn", "vgg13_bn-abd245e5.pth", 256, 224, kBilinear},
    {"vgg16", "vgg16-397923af.pth", 256, 224, kBilinear},
    {"vgg16", "vgg16_features-amdegroot-88682ab5.pth", 256, 224, kBilinear},
    {"vgg16_bn", "vgg16_bn-6c64b313.pth", 256, 224, kBilinear},
    {"vgg19", "vgg19-dcbb9e9d.pth", 256, 224, kBilinear},
    {"vgg19_bn", "vgg19_bn-c79401a0.pth", 256, 224, kBilinear},
    {"vit_b_16", "vit_b_16-c867db91.pth", 256, 224, kBilinear},
    {"vit_b_16", "vit_b_16_swag-9ac1b537.pth", 384, 384, kBicubic},
    {"vit_b_16", "vit_b_16_lc_swag-4e70ced5.pth", 224, 224, kBicubic},
    {"vit_b_32", "vit_b_32-d86f8d99.pth", 256, 224, kBilinear},
    {"vit_h_14", "vit_h_14_swag-80465313.pth", 518, 518, kBicubic},
    {"vit_h_14", "vit_h_14_lc_swag-c1eb923e.pth", 224, 224, kBicubic},
    {"vit_l_16", "vit_l_16-852ce7e3.pth", 242, 224, kBilinear},
    {"vit_l_16", "vit_l_16_swag-4f3808c9.pth", 512, 512, kBicubic},
    {"vit_l_16", "vit_l_16_lc_swag-4d563306.pth", 224, 224, kBicubic},
    {"vit_l_32", "vit_l_32-c7638314.pth", 256, 224, kBilinear},
    {"wide_resnet101_2", "wide_resnet101_2-32ee1156.pth", 256, 224, kBilinear},
    {"wide_resnet101_2", "wide_resnet101_2-d733dc28.pth", 232, 224, kBilinear},
    {"wide_resnet50_2", "wide_resnet50_2-95faca4d.pth", 256, 224, kBilinear},
    {"wide_resnet50_2", "wide_resnet50_2-9ba9bcbe.pth", 232, 224, kBilinear},
};

TEST(PublishedPreprocessing, OfEveryFileOfWeights) {
  for (const Published& weights : kPublished) {
    ASSERT_NE(zoo::find(weights.model), nullptr) << weights.model;
    const std::optional<zoo::Preprocessing> found = zoo::preprocessing(weights.model, weights.file);
    ASSERT_TRUE(found) << weights.file;
    EXPECT_EQ(found->resize, weights.resize) << weights.file;
    EXPECT_EQ(found->crop, weights.crop) << weights.file;
    EXPECT_EQ(found->interpolation, weights.interpolation) << weights.file;
    EXPECT_EQ(found->channels, 3) << weights.file;
  }
}

TEST(PublishedPreprocessing, MeanAndDeviation) {
  using Values = std::array<float, 3>;
  for (const Published& weights : kPublished) {
    const zoo::Preprocessing found = *zoo::preprocessing(weights.model, weights.file);
    const bool is_other = std::string_view(weights.file) == "vgg16_features-amdegroot-88682ab5.pth";
    EXPECT_EQ(found.mean, is_other ? (Values{0.48235F, 0.45882F, 0.40784F}) : (Values{0.485F, 0.456F, 0.406F}))
        << weights.file;
    EXPECT_EQ(found.std, is_other ? (Values{1.0F / 255, 1.0F / 255, 1.0F / 255}) : (Values{0.229F, 0.224F, 0.225F}))
        << weights.file;
  }
}

TEST(PublishedPreprocessing, OfAFileThatIsOfNoOtherModel) {
  EXPECT_EQ(zoo::preprocessing("regnet_x_8gf", "regnet_x_800mf-94a99ebd.pth")->resize, 256);
  EXPECT_EQ(zoo::preprocessing("vit_b_16", "/models/my.vit_b_16_swag-9ac1b537.pth")->crop, 384);
  EXPECT_EQ(zoo::preprocessing("vit_b_16", "renamed.pth")->crop, 224);
}

}  // namespace
