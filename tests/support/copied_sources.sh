# Sourced by tests that build the project once more, with other options.
# copy_sources FOLDER: the working tree in FOLDER, which is to be built in FOLDER/build. The compiler's cache knows a
# precompiled header by its place, so that only there everything that the project's own build folder compiled with the
# same options comes from it; at another place a thousand files are compiled anew.
copy_sources() {
  local folder=$1 root
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  local parts=(CMakeLists.txt README.md libcore libckpt samples tests tools zoo)
  mkdir -p "$folder"
  (cd "$folder" && rm -rf "${parts[@]}")
  (cd "$root" && cp -a "${parts[@]}" "$folder")
  export CCACHE_BASEDIR=$folder CCACHE_NOHASHDIR=true CCACHE_SLOPPINESS=pch_defines,time_macros
}
