// Folders as training programs and model hubs leave them: the model in them is opened, or a sentence says where it is.

#include <gmock/gmock.h>

#include "libckpt/ckpt.h"
#include "libckpt/format/folder.h"
#include "libcore/base/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"

namespace {

using ::testing::HasSubstr;

class FolderKind : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content = "") {
    std::filesystem::create_directories((dir_.path() / name).parent_path());
    test::write_file(dir_.path() / name, content);
  }
  std::string resolved() { return ckpt::resolve_folder(dir_.path()).filename().string(); }
  std::string sentence() {
    try {
      return "it is " + resolved();
    } catch (const core::Error& error) {
      EXPECT_EQ(error.code(), core::ErrorCode::unsupported);
      return error.message();
    }
  }
  std::string in(const std::string& name) { return "'" + (dir_.path() / name).string() + "'"; }

  test::TempDir dir_;
};

TEST_F(FolderKind, AFolderOfOneModelFileIsThatModel) {
  write("config.json");
  write("model.safetensors");
  EXPECT_EQ(resolved(), "model.safetensors");
}

TEST_F(FolderKind, FormsThatAreOnlyReadCountWhereNothingElseDoes) {
  write("config.json", "{}");
  write("flax_model.msgpack");
  EXPECT_EQ(resolved(), "flax_model.msgpack");
  write("weights.pth");
  EXPECT_EQ(resolved(), "weights.pth");
}

TEST_F(FolderKind, ACheckpointOfTrainerIsItsModelAndNotTheOptimizer) {
  for (const char* name : {"model.safetensors", "optimizer.pt", "rng_state.pth", "scheduler.pt", "training_args.bin"})
    write(name);
  EXPECT_EQ(resolved(), "model.safetensors");
}

TEST_F(FolderKind, AnAdapterIsOpened) {
  write("adapter_config.json", "{}");
  write("adapter_model.safetensors");
  write("training_args.bin");
  EXPECT_EQ(resolved(), "adapter_model.safetensors");
}

TEST_F(FolderKind, TheSafetensorsFormOfOneModelComesFirst) {
  write("pytorch_model.bin.index.json");
  write("model.safetensors.index.json");
  EXPECT_EQ(resolved(), "model.safetensors.index.json");
}

TEST_F(FolderKind, TheRunOfATrainerNamesItsLastCheckpoint) {
  write("checkpoint-500/model.safetensors");
  write("checkpoint-1000/model.safetensors");
  EXPECT_THAT(sentence(), HasSubstr("its last checkpoint is 'checkpoint-1000': ckpt ls " + in("checkpoint-1000")));
}

TEST_F(FolderKind, DeepSpeedIsRecognised) {
  write("latest", "global_step10\n");
  write("global_step10/mp_rank_00_model_states.pt");
  write("zero_to_fp32.py");
  EXPECT_THAT(sentence(), HasSubstr("ckpt ls " + in("global_step10")));
  EXPECT_EQ(ckpt::resolve_folder(dir_.path() / "global_step10").filename(), "mp_rank_00_model_states.pt");
}

TEST_F(FolderKind, ZeroThreeIsJoinedByDeepSpeedItself) {
  write("zero_pp_rank_0_mp_rank_00_model_states.pt");
  write("zero_pp_rank_1_mp_rank_00_model_states.pt");
  EXPECT_THAT(sentence(), HasSubstr("python zero_to_fp32.py . pytorch_model.bin"));
}

TEST_F(FolderKind, ASavedModelOfTensorFlowIsNamed) {
  write("saved_model.pb");
  write("variables/variables.index");
  EXPECT_THAT(
      sentence(),
      HasSubstr("this is a TensorFlow SavedModel, which is not read; TensorFlow itself can save its variables"));
}

TEST_F(FolderKind, ACheckpointOfTensorFlowIsNamed) {
  write("checkpoint", "model_checkpoint_path: 'net'");
  write("net.index");
  write("net.data-00000-of-00001");
  EXPECT_THAT(sentence(), HasSubstr("load_checkpoint(" + in("net") + ")"));
}

TEST_F(FolderKind, OrbaxAndCoreMlAreNamed) {
  write("orbax/_METADATA");
  write("orbax/manifest.ocdbt");
  write("net.mlpackage/Manifest.json");
  write("net.mlpackage/Data/com.apple.CoreML/model.mlmodel");
  auto said = [&](const char* folder) { return test::message_of([&] { ckpt::resolve_folder(dir_.path() / folder); }); };
  EXPECT_THAT(said("orbax"), HasSubstr("pathlib.Path(" + in("orbax") + ").absolute()"));
  EXPECT_THAT(said("net.mlpackage"), HasSubstr("Core ML package, which is not read; save the weights of the model"));
}

TEST_F(FolderKind, TheCacheOfAModelHubLeadsToItsSnapshot) {
  write("blobs/ab");
  write("refs/main");
  write("snapshots/f00/model.safetensors");
  EXPECT_THAT(sentence(), HasSubstr("ckpt ls " + in("snapshots/f00")));
}

TEST_F(FolderKind, SeveralFilesThatAreOnlyReadAreNamed) {
  write("decoder.onnx");
  write("encoder.onnx");
  write("flax_model.msgpack");
  EXPECT_THAT(sentence(), HasSubstr("it holds 'decoder.onnx', 'encoder.onnx', 'flax_model.msgpack': name the file"));
}

TEST_F(FolderKind, ADiffusersPipelineNamesItsModels) {
  write("model_index.json", "{}");
  write("unet/diffusion_pytorch_model.safetensors");
  write("vae/diffusion_pytorch_model.safetensors");
  EXPECT_THAT(sentence(), HasSubstr("several models: 'unet', 'vae'"));
  EXPECT_EQ(ckpt::resolve_folder(dir_.path() / "unet").filename(), "diffusion_pytorch_model.safetensors");
}

TEST_F(FolderKind, ShardsWithoutTheirIndexAreNotOneModel) {
  write("model-00001-of-00002.safetensors");
  write("model-00002-of-00002.safetensors");
  EXPECT_THAT(sentence(), HasSubstr("2 shards of a model"));
}

}  // namespace
