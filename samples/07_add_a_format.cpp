// A format in sixty lines is one row: how to find itself by content, read, say what it cannot hold, write. This one is
// text, a line a tensor: "fc.bias 2 : 0.5 -0.5". In the library the row would stand in libckpt/format/registry.cpp;
// here it is used directly. usage: sample_add_a_format IN OUT.txt
#include <cstdio>
#include <cstring>
#include <sstream>

#include "libckpt/ckpt.h"
#include "libckpt/format/format.h"
#include "libckpt/io/atomic_file.h"
#include "libcore/base/error.h"

using namespace ckpt;

constexpr std::string_view kHead = "tensors as text\n";
constexpr std::string_view kExtensions[] = {".txt"};

bool detect(const Input& input) {
  return input.head.size() >= kHead.size() && std::memcmp(input.head.data(), kHead.data(), kHead.size()) == 0;
}

Checkpoint read(const Input& input, const OpenOptions& options) {
  if (input.file->size() > options.limits.max_json_bytes) throw core::Error(core::ErrorCode::refused, "too large");
  core::ByteVector bytes = read_all(*input.file);  // a real format would stay lazy: one slice() of the file a tensor
  std::istringstream lines({reinterpret_cast<const char*>(bytes.data()) + kHead.size(), bytes.size() - kHead.size()});
  Dict dict;
  for (std::string line, name; std::getline(lines, line);) {
    std::istringstream words(line);
    auto entry = std::make_shared<Entry>();
    words >> name;
    for (std::int64_t size = 0; words >> size;) entry->shape.push_back(size);
    words.clear();
    words.ignore(2, ':');
    core::ByteVector values;
    for (float value = 0; words >> value;) core::append(values, std::as_bytes(std::span(&value, 1)));
    if (values.size() != core::byte_size(entry->dtype, core::try_numel(entry->shape.span()).value_or(0))) {
      throw core::Error(core::ErrorCode::corrupt, "shape and values disagree").add_context(name);
    }
    entry->bytes = memory_source(std::move(values));
    dict.items.emplace_back(Value::text(name), Value::tensor(std::move(entry)));
  }
  return {.root = Value::dict(std::move(dict))};
}

std::vector<Obstacle> obstacles(const Checkpoint& checkpoint, const SaveOptions&) {
  std::vector<Obstacle> list;
  for (const NamedEntry& tensor : list_entries(checkpoint.root)) {
    if (tensor.entry->dtype != core::DType::f32) list.push_back(dtype_obstacle(tensor.name, tensor.entry->dtype));
  }
  for (const NamedValue& value : list_plain_values(checkpoint.root)) {
    list.push_back(value_obstacle(value.name, value.value));
  }
  return list;
}

void write(const Checkpoint& checkpoint, const std::filesystem::path& path, const SaveOptions& options) {
  std::ostringstream text;
  text.precision(9);  // enough to read every float back
  text << kHead;
  for (const NamedEntry& tensor : list_entries(checkpoint.root)) {
    text << tensor.name;
    for (std::int64_t size : tensor.entry->shape) text << ' ' << size;
    text << " :";
    core::ByteVector values = read_all(*tensor.entry->bytes);
    for (std::size_t at = 0; at < values.size(); at += 4) text << ' ' << core::load_le<float>(values.data() + at);
    text << '\n';
  }
  AtomicFile file(path, {.overwrite = options.overwrite, .durable = options.durable});
  file.write(core::as_bytes(text.str()));
  file.commit();
}

const Format kText = {.name = "text",
                      .title = "tensors as text",
                      .extensions = kExtensions,
                      .detect = detect,
                      .read = read,
                      .obstacles = obstacles,
                      .write = write};

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: sample_add_a_format IN OUT.txt\n");
    return 2;
  }
  try {
    Checkpoint checkpoint = open(argv[1]);
    for (const Obstacle& o : kText.obstacles(checkpoint, {}))
      std::printf("%s: %s\n", o.subject.c_str(), o.reason.c_str());
    kText.write(checkpoint, argv[2], {.overwrite = false});
    Input input{argv[2], open_file(argv[2]), {}};
    input.head = read_all(*input.file);
    std::printf("found by content: %s\n", kText.detect(input) ? "yes" : "no");
    std::printf("read back: %s\n", diff(checkpoint, kText.read(input, {})).equal() ? "the same" : "different");
  } catch (const core::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
