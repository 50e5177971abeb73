// Files that cannot be read: pointers, web pages, cut and empty ones.

#include "tests/libckpt/analyze/why/corpus.h"

namespace test {
namespace {

using ckpt::CauseKind;
using namespace std::string_literals;

constexpr const char* kPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 4617089843\n";
constexpr const char* kPage =
    "<!DOCTYPE html>\n<html><head><title>Access denied</title></head><body>log in first</body></html>\n";

Broken raw(std::string bytes, std::string extension) {
  Broken broken;
  broken.raw = std::move(bytes);
  broken.extension = std::move(extension);
  broken.truth = small_mlp();
  return broken;
}

Broken cut(std::size_t percent, std::string extension) {
  Broken broken;
  broken.truth = small_resnet({2, 2}, 10, 16);
  broken.root = build(broken.truth);
  broken.extension = std::move(extension);
  broken.cut = percent;
  return broken;
}

Broken with_error(Broken broken, std::string error) {
  broken.error = std::move(error);
  return broken;
}

}  // namespace

std::vector<Case> file_cases() {
  return {
      {"pointer_safetensors", "MFTCoder#20", CauseKind::lfs_pointer, Outcome::advice,
       "git lfs pull --include=", [] { return raw(kPointer, ".safetensors"); }},
      {"pointer_bin", "OmniParser#34", CauseKind::lfs_pointer, Outcome::advice, "4.3 GiB",
       [] { return with_error(raw(kPointer, ".bin"), "UnpicklingError: invalid load key, 'v'."); }},
      {"pointer_header_too_large", "transformers#27923", CauseKind::lfs_pointer, Outcome::advice, "git lfs pull",
       [] {
         return with_error(raw(kPointer, ".safetensors"),
                           "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge");
       }},
      {"web_page", "exllama#242", CauseKind::web_page, Outcome::advice, "Access denied",
       [] { return raw(kPage, ".bin"); }},
      {"json_answer", "DB-GPT#314", CauseKind::web_page, Outcome::advice, "download",
       [] { return raw("{\"error\":\"Repository not found\"}", ".safetensors"); }},
      {"xml_answer", "a bucket that denies access", CauseKind::web_page, Outcome::advice, "",
       [] { return raw("<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", ".pth"); }},
      {"cut_safetensors", "DB-GPT#314", CauseKind::truncated, Outcome::advice, " %",
       [] { return cut(61, ".safetensors"); }},
      {"cut_zip", "transformers#27923", CauseKind::truncated, Outcome::advice, "no central directory",
       [] { return cut(50, ".pth"); }},
      {"cut_in_header", "Plant_DNA_LLMs#12", CauseKind::truncated, Outcome::advice, "inside its header",
       [] { return cut(2, ".safetensors"); }},
      {"cut_end_of_zip", "transformers#35525", CauseKind::truncated, Outcome::advice, "",
       [] { return cut(99, ".pth"); }},
      {"empty", "Plant_DNA_LLMs#12", CauseKind::truncated, Outcome::advice, "empty", [] { return raw("", ".pth"); }},
      {"zeros", "adaptdl#70, reserved and never written", CauseKind::truncated, Outcome::advice, "zeros",
       [] { return raw(std::string(4096, '\0'), ".pth"); }},
      {"gzip", "neural-colorization#11", CauseKind::not_a_checkpoint, Outcome::advice, "gunzip",
       [] { return raw("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"s + "abcdefgh", ".pth"); }},
      {"program", "ultralytics#24307", CauseKind::not_a_checkpoint, Outcome::advice, "program",
       [] {
         return raw(
             "\x7f"
             "ELF\x02\x01\x01"s +
                 std::string(64, '\0'),
             ".pth");
       }},
  };
}

}  // namespace test
