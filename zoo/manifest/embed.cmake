# Turns the packed key lists into a source file: cmake -DINPUT=... -DOUTPUT=... -P embed.cmake
file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE "${OUTPUT}" "// Made by the build from zoo/manifest/data.
#include \"zoo/manifest/packed.h\"

namespace zoo {
namespace {
constexpr unsigned char kPacked[] = {
${bytes}
};
}  // namespace

core::Bytes packed_manifests() {
  return {reinterpret_cast<const std::byte*>(kPacked), sizeof(kPacked)};
}

}  // namespace zoo
")
