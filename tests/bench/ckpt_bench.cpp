// Times one operation between a file, memory and a device, and prints one JSON line: seconds of the operation alone,
// bytes of the tensors, and sum64, the sum of all their bytes read as little-endian 64-bit words (the last word of each
// tensor filled with zeros), by which a harness checks that they are the file's.
// usage: ckpt_bench load_device FILE [--device cuda:0] [--threads N] [--slot-bytes N] [--slots N]
//        ckpt_bench lazy_load FILE
//        ckpt_bench lazy_read_all|load_owned|load_into FILE [--threads N]
//        ckpt_bench save FILE OUT [--durable] [--not-atomic] [--threads N]
//        ckpt_bench save_again FILE OUT [--threads N]
//        ckpt_bench save_overlap FILE OUT [--every 20]
//        ckpt_bench save_async FILE OUT [--device cpu|cuda:0] [--snapshot automatic|device|host]
//        ckpt_bench save_async FILE OUT --fused-optimizer
//        ckpt_bench compress|decompress FILE [--codec zstd] [--threads N]
//        ckpt_bench delta_compress|delta_apply BASE FILE... [--threads N]
// lazy_load, lazy_read_all: of a mapped file. save: without the time to load FILE. save_again: 40 times over OUT, not
// durable, the least of each. save_overlap: seconds of a step of
// Adam with one thread, "slowdown" how much longer it takes while a save is under way. save_async: seconds are those of
// the call, the time for which training stands still, two seconds after a first save; "written_seconds" until
// the file is there; with --fused-optimizer how much longer a step of Adam takes that copies its weights and moments
// for a save. compress, decompress: in memory, as for .ckpt, the fastest of seven passes; "stored_ratio" is packed over
// plain bytes, "copy_seconds" the fastest memcpy() of the plain bytes between the passes. delta_compress, delta_apply:
// each FILE as its difference to the one before, into files, and the last FILE from BASE and those differences into
// memory, the fastest of three passes or more, also in seconds of all processors
// ("processor_seconds"); "stored_ratio" is that of one difference. Exit status: 0; 1 for an error; 2 for wrong
// arguments.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libckpt/bridge.h"
#include "libcore/backend/device_registry.h"
#include "libcore/data/dataset.h"
#include "libcore/ops/loss.h"
#include "libcore/ops/pad.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/iterate.h"
#include "tests/bench/bench_codec.h"
#include "tests/bench/bench_delta.h"
#include "tests/bench/bench_files.h"

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Arguments {
  std::vector<std::string> words;
  std::map<std::string, std::string> options;
  std::set<std::string> flags;

  std::string get(const std::string& name, const char* otherwise) const {
    const auto found = options.find(name);
    return found == options.end() ? otherwise : found->second;
  }
  unsigned number(const std::string& name) const {
    return static_cast<unsigned>(std::strtoul(get(name, "0").c_str(), nullptr, 10));
  }
};

using bench::Sum;
using bench::sum_of;

void print(double seconds, const Sum& sum, const std::string& more = "") {
  std::printf("{\"seconds\": %.9f, \"bytes\": %llu, \"sum64\": \"%016llx\"%s}\n", seconds,
              static_cast<unsigned long long>(sum.bytes), static_cast<unsigned long long>(sum.sum64), more.c_str());
}

/// What a first use of a device costs is not the operation's.
void warm(core::Device device) {
  if (device.is_cuda()) core::zeros({1}, {.device = device}).cpu();
}

int load(const Arguments& arguments, core::Device device) {
  ckpt::LoadOptions options{.map_location = device};
  options.open.threads = arguments.number("--threads");
  options.ring.slots = arguments.number("--slots");
  if (arguments.number("--slot-bytes") != 0) options.ring.slot_bytes = arguments.number("--slot-bytes");
  warm(device);
  const auto begin = Clock::now();
  const core::StateDict state = ckpt::load(arguments.words[1], options);
  if (device.is_cuda()) core::cuda::synchronize(device);
  print(since(begin), sum_of(state));
  return 0;
}

int save_async(const Arguments& arguments) {
  if (arguments.flags.contains("--fused-optimizer")) {
    // The whole run is saved, which .safetensors cannot hold.
    const auto target = std::filesystem::path(arguments.words[2]).replace_extension(".pth");
    const bench::Timed timed = bench::save_in_step(arguments.words[1], target);
    print(timed.seconds, timed.sum, timed.more);
    return 0;
  }
  const core::Device device(arguments.get("--device", "cpu"));
  const std::string place = arguments.get("--snapshot", "automatic");
  ckpt::AsyncSaveOptions options;
  if (place == "device") options.snapshot = ckpt::SnapshotPlace::device;
  if (place == "host") options.snapshot = ckpt::SnapshotPlace::host;
  warm(device);
  const core::StateDict state = ckpt::load(arguments.words[1], {.map_location = device});
  ckpt::save_async(state, arguments.words[2], options).wait();
  bench::let_copies_settle();
  if (device.is_cuda()) core::cuda::synchronize(device);
  const auto begin = Clock::now();
  const ckpt::PendingSave save = ckpt::save_async(state, arguments.words[2], options);
  const double called = since(begin);
  if (device.is_cuda()) core::cuda::current_stream(device).synchronize();
  const double stalled = since(begin);
  save.wait();
  char more[96];
  std::snprintf(more, sizeof more, ", \"call_seconds\": %.9f, \"written_seconds\": %.9f", called, since(begin));
  print(stalled, sum_of(state), more);
  return 0;
}

int pack(const Arguments& arguments) {
  const auto codec = ckpt::codec_named(arguments.get("--codec", "zstd"));
  if (!codec) throw core::Error(core::ErrorCode::usage, "--codec is none, zstd, fast or gzip");
  const unsigned threads = std::max(arguments.number("--threads"), 1U);
  bench::PackedTensors tensors(arguments.words[1], *codec);
  const bool unpacks = arguments.words[0] == "decompress";
  double packed = 1e30;
  double unpacked = 1e30;
  double copied = 1e30;
  for (int i = 0; i < 7; ++i) {
    auto begin = Clock::now();
    tensors.pack(threads);
    packed = std::min(packed, since(begin));
    begin = Clock::now();
    tensors.unpack(threads);
    unpacked = std::min(unpacked, since(begin));
    tensors.require_same();
    begin = Clock::now();
    tensors.copy();
    copied = std::min(copied, since(begin));
  }
  char more[96];
  std::snprintf(more, sizeof more, ", \"stored_ratio\": %.4f, \"copy_seconds\": %.9f",
                static_cast<double>(tensors.stored_bytes()) / static_cast<double>(tensors.bytes()), copied);
  print(unpacks ? unpacked : packed, {tensors.bytes(), tensors.sum64()}, more);
  return 0;
}

/// Differences are made by one thread, as by the programs that they are compared with, if nothing else is said.
int chain(const Arguments& arguments) {
  const bool applies = arguments.words[0] == "delta_apply";
  const unsigned threads = std::max(arguments.number("--threads"), applies ? 0U : 1U);
  bench::DeltaChain chain({arguments.words.begin() + 1, arguments.words.end()}, threads);
  double seconds = 1e30;
  double processor = 1e30;
  const auto timed = [&](bool counts, const auto& body) {
    const auto begin = Clock::now();
    const std::clock_t used = std::clock();
    body();
    if (!counts) return;
    seconds = std::min(seconds, since(begin));
    processor = std::min(processor, static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC);
  };
  for (int i = 0; i < 3; ++i) {
    timed(!applies, [&] { chain.make(); });
    chain.restore();  // once into fresh memory
    for (int k = 0; k < 3; ++k) timed(applies, [&] { chain.restore(); });
  }
  char more[160];
  std::snprintf(more, sizeof more, ", \"stored_ratio\": %.4f, \"gb_per_s\": %.3f, \"processor_seconds\": %.6f",
                static_cast<double>(chain.stored_bytes()) / static_cast<double>(chain.bytes()),
                static_cast<double>(chain.bytes()) / seconds / 1e9, processor);
  print(seconds, {chain.bytes(), chain.sum64()}, more);
  return 0;
}

void print(const bench::Timed& timed) {
  print(timed.seconds, timed.sum, timed.more);
}

/// 2: no such operation.
int run_on_files(const Arguments& arguments) {
  const std::string& name = arguments.words[0];
  const std::string& file = arguments.words[1];
  const unsigned threads = arguments.number("--threads");
  const bool writes = arguments.words.size() == 3;
  if (name == "lazy_load") return print(bench::lazy_load(file)), 0;
  if (name == "lazy_read_all") return print(bench::lazy_read_all(file, threads)), 0;
  if (name == "load_into") return print(bench::load_into(file, threads)), 0;
  if (writes && name == "save") {
    const bench::SaveHow how{arguments.flags.contains("--durable"), !arguments.flags.contains("--not-atomic"), threads};
    return print(bench::save(file, arguments.words[2], how)), 0;
  }
  if (writes && name == "save_again") return print(bench::save_again(file, arguments.words[2], threads)), 0;
  if (writes && name == "save_overlap") {
    const unsigned every = std::max(arguments.number("--every"), 2U);
    return print(bench::save_overlap(file, arguments.words[2], every)), 0;
  }
  return 2;
}

int run(const Arguments& arguments) {
  const std::size_t count = arguments.words.size();
  if ((count == 2 || count == 3) && run_on_files(arguments) == 0) return 0;
  if (count == 2 && arguments.words[0] == "load_device") return load(arguments, arguments.get("--device", "cuda:0"));
  if (count == 2 && arguments.words[0] == "load_owned") return load(arguments, core::Device());
  if (count == 3 && arguments.words[0] == "save_async") return save_async(arguments);
  if (count == 2 && (arguments.words[0] == "compress" || arguments.words[0] == "decompress")) return pack(arguments);
  const bool deltas = count > 2 && (arguments.words[0] == "delta_compress" || arguments.words[0] == "delta_apply");
  if (deltas) return chain(arguments);
  std::fputs(
      "usage: ckpt_bench load_device FILE [--device cuda:0] [--threads N] [--slot-bytes N] [--slots N]\n"
      "       ckpt_bench lazy_load FILE\n"
      "       ckpt_bench lazy_read_all|load_owned|load_into FILE [--threads N]\n"
      "       ckpt_bench save_again FILE OUT [--threads N]\n"
      "       ckpt_bench save FILE OUT [--durable] [--not-atomic] [--threads N]\n"
      "       ckpt_bench save_overlap FILE OUT [--every 20]\n"
      "       ckpt_bench save_async FILE OUT [--device cpu] [--snapshot automatic|device|host]\n"
      "       ckpt_bench save_async FILE OUT --fused-optimizer\n"
      "       ckpt_bench compress|decompress FILE [--codec zstd] [--threads N]\n"
      "       ckpt_bench delta_compress|delta_apply BASE FILE... [--threads N]\n",
      stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--durable" || word == "--not-atomic" || word == "--fused-optimizer") {
      arguments.flags.insert(word);
    } else if (word.starts_with("--") && i + 1 < argc) {
      arguments.options[word] = argv[++i];
    } else {
      arguments.words.push_back(word);
    }
  }
  try {
    return run(arguments);
  } catch (const core::Error& error) {
    std::fprintf(stderr, "ckpt_bench: %s\n", error.what());
    return 1;
  }
}
