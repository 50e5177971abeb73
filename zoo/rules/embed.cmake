# Turns rule packs into a source file: cmake "-DFILES=a.toml;b.toml" -DOUTPUT=... -P embed.cmake
set(texts "")
foreach(file IN LISTS FILES)
  file(READ "${file}" text)
  get_filename_component(name "${file}" NAME_WE)
  string(APPEND texts "    {\"${name}\", R\"rules(${text})rules\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by the build from zoo/rules/data.
#include \"zoo/rules/pack_texts.h\"

namespace zoo {
namespace {
constexpr PackText kTexts[] = {
${texts}};
}  // namespace

std::span<const PackText> pack_texts() {
  return kTexts;
}

}  // namespace zoo
")
