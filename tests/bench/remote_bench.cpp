// remote_bench: what opening a checkpoint over a network costs, by format: requests, bytes, milliseconds. A real nginx
// on loopback gives the files, so the milliseconds are what the program and the server need; each round trip of a real
// network comes on top, once a request (shards side by side).

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "libckpt/io/byte_source.h"
#include "libckpt/open_save.h"
#include "libckpt/remote/remote.h"
#include "libcore/base/text.h"
#include "tests/libckpt/remote/web_server.h"
#include "tests/libckpt/transform/trees.h"

namespace fs = std::filesystem;
using namespace test;

namespace {

constexpr int kRuns = 5;

ckpt::Checkpoint model(int tensors, std::size_t floats) {
  ckpt::Dict dict;
  for (int i = 0; i < tensors; ++i) {
    dict.items.emplace_back(
        ckpt::Value::text("model.layers." + std::to_string(i / 10) + ".part_" + std::to_string(i % 10)),
        tensor(std::vector<float>(floats, static_cast<float>(i))));
  }
  return checkpoint(ckpt::Value::dict(std::move(dict)));
}

/// 2,000 tensors of 50 MiB that take no room on the disk.
void write_sparse(const fs::path& file) {
  constexpr std::uint64_t kEach = 50 << 20;
  std::string header = "{";
  for (std::uint64_t i = 0; i < 2'000; ++i) {
    header += (i > 0 ? ",\"model.layers." : "\"model.layers.") + std::to_string(i / 10) + ".self_attention.part_" +
              std::to_string(i % 10) + ".weight\":{\"dtype\":\"F32\",\"shape\":[12800,1024],\"data_offsets\":[" +
              std::to_string(i * kEach) + "," + std::to_string((i + 1) * kEach) + "]}";
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
  write_file(file, length + header);
  fs::resize_file(file, 8 + header.size() + 2'000 * kEach);
}

template <class Work>
void row(const std::string& name, Work work) {
  double best = 1e9;
  ckpt::RemoteTraffic traffic;
  for (int i = 0; i < kRuns; ++i) {
    ckpt::enable_remote_files();
    auto begin = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    traffic = ckpt::remote_traffic();
  }
  std::printf("| %s | %llu | %s | %.1f |\n", name.c_str(), static_cast<unsigned long long>(traffic.requests),
              core::format_size(traffic.bytes).c_str(), best);
  std::fflush(stdout);
}

void print_table(const Nginx& web) {
  auto open_row = [&](const std::string& name, const std::string& file) {
    row(name, [&] { ckpt::open(web.url(file)); });
  };
  std::puts("| work | requests | bytes | ms |\n|---|--:|--:|--:|");
  open_row("open a safetensors file of 100 GB, 2,000 tensors", "big.safetensors");
  open_row("open .safetensors, 1,000 tensors, 40 MB", "net.safetensors");
  open_row("open .ckpt, the same", "net.ckpt");
  open_row("open .gguf, the same", "net.gguf");
  open_row("open .pth, the same", "net.pth");
  open_row("open 16 shards and their index, the same", "set/model.safetensors.index.json");
  row("one tensor of 50 MiB of the 100 GB", [&] {
    ckpt::Checkpoint far = ckpt::open(web.url("big.safetensors"));
    ckpt::read_all(*ckpt::list_entries(far.root)[1'234].entry->bytes);
  });
  row("all tensors of the .safetensors", [&] {
    ckpt::Checkpoint far = ckpt::open(web.url("net.safetensors"));
    for (const ckpt::NamedEntry& named : ckpt::list_entries(far.root)) ckpt::read_all(*named.entry->bytes);
  });
  row("all tensors of the .pth", [&] {
    ckpt::Checkpoint far = ckpt::open(web.url("net.pth"));
    for (const ckpt::NamedEntry& named : ckpt::list_entries(far.root)) ckpt::read_all(*named.entry->bytes);
  });
}

}  // namespace

int main() {
  try {
    Nginx web;
    write_sparse(web.root() / "big.safetensors");
    ckpt::Checkpoint net = model(1'000, 10'000);
    for (const char* file : {"net.safetensors", "net.ckpt", "net.gguf", "net.pth"}) ckpt::save(net, web.root() / file);
    fs::create_directory(web.root() / "set");
    ckpt::SaveOptions shards;
    shards.max_shard_size = 2'600'000;
    ckpt::save(net, web.root() / "set" / "model.safetensors", shards);
    print_table(web);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "remote_bench: " << error.what() << '\n';
    return 1;
  }
}
