#!/usr/bin/env bash
# Recipes that nobody builds here name every library that tools/setup.sh installs for the build: a row a package, with its
# name in each recipe; '-' where the recipe builds it, says that it has none, or goes without.
# usage: recipes.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tools/setup.sh
wrong=0
recipes=(homebrew.rb vcpkg/vcpkg.json conda/meta.yaml cibuildwheel.toml)
names=$(
  cat <<'ROWS'
libhdf5-dev           hdf5          hdf5           hdf5             -
libzstd-dev           zstd          zstd           zstd             libzstd-devel
libxxhash-dev         xxhash        xxhash         xxhash           xxhash-devel
libdeflate-dev        libdeflate    libdeflate     libdeflate       libdeflate-devel
libsimdjson-dev       simdjson      simdjson       simdjson         simdjson-devel
libisal-dev           isa-l         isal           isa-l            isa-l-devel
nettle-dev            nettle        nettle         nettle           -
zlib1g-dev            zlib          zlib           zlib             zlib-devel
libcli11-dev          cli11         cli11          cli11            cli11-devel
libre2-dev            re2           re2            re2              -
libtomlplusplus-dev   tomlplusplus  tomlplusplus   tomlplusplus     tomlplusplus-devel
libdnnl-dev           onednn        onednn         onednn           onednn-devel
libopenblas-dev       openblas      openblas       openblas         openblas-devel
libpng-dev            libpng        libpng         libpng           libpng-devel
libjpeg-dev           jpeg-turbo    libjpeg-turbo  libjpeg-turbo    libjpeg-turbo-devel
libcurl4-openssl-dev  curl          curl           libcurl          libcurl-devel
libgloo-dev           -             -              -                -
libpcre2-dev          pcre2         pcre2          pcre2            pcre2-devel
libutf8proc-dev       utf8proc      utf8proc       libutf8proc      utf8proc-devel
libsentencepiece-dev  sentencepiece sentencepiece  libsentencepiece -
libkissfft-dev        -             kissfft        -                -
libeigen3-dev         eigen         eigen3         eigen            eigen3-devel
libncurses-dev        ncurses       ncurses        ncurses          ncurses-devel
libsndfile1-dev       libsndfile    libsndfile     libsndfile       -
libsamplerate0-dev    libsamplerate libsamplerate  libsamplerate    -
ROWS
)
for package in "${build_packages[@]}"; do
  case $package in lib*-dev | *-dev) ;; *) continue ;; esac
  row=$(awk -v package="$package" '$1 == package' <<<"$names")
  [ -n "$row" ] || { echo "tests/checks/recipes.sh has no row for $package" >&2; wrong=1; continue; }
  read -r -a called <<<"$row"
  for i in "${!recipes[@]}"; do
    name=${called[i + 1]}
    [ "$name" = - ] || grep -Eq "(^|[^A-Za-z0-9-])$name([^A-Za-z0-9-]|$)" "tools/install/recipes/${recipes[i]}" ||
      { echo "tools/install/recipes/${recipes[i]} does not name $name ($package)" >&2; wrong=1; }
  done
done
exit $wrong
