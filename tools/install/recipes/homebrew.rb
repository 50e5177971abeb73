# A formula for Homebrew on Linux. Not tested: nobody has run `brew install` with it, and macOS is no target yet (the helper
# for HDF5 shuts itself in with Landlock and seccomp, which only Linux has). The address is to be filled in, and so is where
# kissfft/kissfft.hh lies, for which Homebrew has no formula.
class Ckpt < Formula
  desc "Reads, repairs, converts and writes model checkpoints"
  homepage "https://ckpt.invalid"
  url "https://ckpt.invalid/ckpt-0.1.0.tar.gz"
  version "0.1.0"

  depends_on "cli11" => :build
  depends_on "cmake" => :build
  depends_on "eigen" => :build
  depends_on "ninja" => :build
  depends_on "pkgconf" => :build
  depends_on "tomlplusplus" => :build
  depends_on "curl"
  depends_on "hdf5"
  depends_on "isa-l"
  depends_on "jpeg-turbo"
  depends_on "libdeflate"
  depends_on "libpng"
  depends_on :linux
  depends_on "libsamplerate"
  depends_on "libsndfile"
  depends_on "ncurses"
  depends_on "nettle"
  depends_on "onednn"
  depends_on "openblas"
  depends_on "pcre2"
  depends_on "re2"
  depends_on "sentencepiece"
  depends_on "simdjson"
  depends_on "utf8proc"
  depends_on "xxhash"
  depends_on "zlib"
  depends_on "zstd"

  def install
    system "cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCKPT_BUILD_TESTS=OFF", "-DCORE_WITH_CUDA=OFF", *std_cmake_args
    system "cmake", "--build", "build", "--target", "ckpt_cli", "ckpt_hdf5", "ckpt_docs"
    %w[tool helper manual].each { |part| system "cmake", "--install", "build", "--component", part }
  end

  test do
    assert_match "ckpt #{version}", shell_output("#{bin}/ckpt --version")
  end
end
