#include "zoo/data/datasets.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "libckpt/bridge.h"
#include "libckpt/checkpoint.h"
#include "libckpt/open_save.h"
#include "libcore/base/error.h"
#include "libcore/data/dataset.h"
#include "libcore/ops/join.h"
#include "libcore/tensor/factory.h"
#include "zoo/data/idx.h"
#include "zoo/data/image_file.h"

namespace zoo::datasets {
namespace {

namespace fs = std::filesystem;
using core::DType;
using core::Error;
using core::ErrorCode;
using core::Tensor;

/// A data set of IDX files: what messages call it, torchvision's folder, and where to get it.
struct IdxNames {
  const char* name;
  const char* folder;
  const char* source;
};
constexpr IdxNames kMnist{"MNIST", "MNIST", "the four files are on https://ossci-datasets.s3.amazonaws.com/mnist"};
constexpr IdxNames kFashion{
    "Fashion-MNIST", "FashionMNIST",
    "the four files are in data/fashion of https://github.com/zalandoresearch/fashion-mnist, and "
    "in Debian's package dataset-fashion-mnist"};

/// "FILE: CIFAR-10 is not there (nor is OTHER); ...".
[[noreturn]] void throw_missing(const fs::path& file, const fs::path& other, const std::string& name,
                                const std::string& source) {
  throw Error(ErrorCode::io, file.string() + ": " + name + " is not there, nor in " + other.string() + "; " + source);
}

/// Error(io) where that cannot be told, as of a name that is too long.
bool is_there(const fs::path& file) {
  std::error_code error;
  const bool found = fs::exists(file, error);
  if (error) throw Error(ErrorCode::io, file.string() + ": " + error.message());
  return found;
}

std::optional<fs::path> plain_or_packed(const fs::path& file) {
  const fs::path packed = file.string() + ".gz";
  if (is_there(file)) return file;
  return is_there(packed) ? std::optional(packed) : std::nullopt;
}

fs::path find_idx(const fs::path& root, const std::string& file, const IdxNames& names) {
  const fs::path raw = root / names.folder / "raw";
  for (const fs::path& folder : {raw, root}) {
    if (const auto found = plain_or_packed(folder / file)) return *found;
  }
  throw_missing(raw / file, root, names.name, names.source);
}

zoo::ImageSet read_idx_set(const fs::path& root, bool train, const IdxNames& names) {
  const std::string split = train ? "train" : "t10k";
  const fs::path images = find_idx(root, split + "-images-idx3-ubyte", names);
  return read_image_set(images, find_idx(root, split + "-labels-idx1-ubyte", names), names.name);
}

Tensor bytes_as(const std::vector<std::uint8_t>& values, const core::Shape& sizes) {
  return core::from_bytes(std::as_bytes(std::span(values)), sizes, DType::u8, {.device = core::Device("cpu")});
}

/// One of the two sets of CIFAR.
struct Cifar {
  const char* name;
  const char* archive;
  const char* pickled;  ///< folders
  const char* binary;
  std::vector<std::string> pickles, binaries;  ///< files
  const char* labels;                          ///< key of the pickles
  std::int64_t classes;
  std::size_t label_bytes;  ///< in front of each image of the binary version; the last of them counts
};

Cifar cifar10(bool train) {
  Cifar set{"CIFAR-10", "cifar-10", "cifar-10-batches-py", "cifar-10-batches-bin", {}, {}, "labels", 10, 1};
  for (int i = 1; train && i <= 5; ++i) set.pickles.push_back("data_batch_" + std::to_string(i));
  if (!train) set.pickles = {"test_batch"};
  for (const std::string& file : set.pickles) set.binaries.push_back(file + ".bin");
  return set;
}
Cifar cifar100(bool train) {
  const std::string file = train ? "train" : "test";
  return {
      "CIFAR-100", "cifar-100", "cifar-100-python", "cifar-100-binary", {file}, {file + ".bin"}, "fine_labels", 100, 2};
}

/// Names by label; the files beside the images say the same.
constexpr const char* kTen[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                "dog",      "frog",       "horse", "ship", "truck"};
constexpr const char* kHundred[] = {
    "apple",      "aquarium_fish", "baby",         "bear",       "beaver",      "bed",         "bee",
    "beetle",     "bicycle",       "bottle",       "bowl",       "boy",         "bridge",      "bus",
    "butterfly",  "camel",         "can",          "castle",     "caterpillar", "cattle",      "chair",
    "chimpanzee", "clock",         "cloud",        "cockroach",  "couch",       "crab",        "crocodile",
    "cup",        "dinosaur",      "dolphin",      "elephant",   "flatfish",    "forest",      "fox",
    "girl",       "hamster",       "house",        "kangaroo",   "keyboard",    "lamp",        "lawn_mower",
    "leopard",    "lion",          "lizard",       "lobster",    "man",         "maple_tree",  "motorcycle",
    "mountain",   "mouse",         "mushroom",     "oak_tree",   "orange",      "orchid",      "otter",
    "palm_tree",  "pear",          "pickup_truck", "pine_tree",  "plain",       "plate",       "poppy",
    "porcupine",  "possum",        "rabbit",       "raccoon",    "ray",         "road",        "rocket",
    "rose",       "sea",           "seal",         "shark",      "shrew",       "skunk",       "skyscraper",
    "snail",      "snake",         "spider",       "squirrel",   "streetcar",   "sunflower",   "sweet_pepper",
    "table",      "tank",          "telephone",    "television", "tiger",       "tractor",     "train",
    "trout",      "tulip",         "turtle",       "wardrobe",   "whale",       "willow_tree", "wolf",
    "woman",      "worm"};

constexpr std::int64_t kCifarBytes = 3 * 32 * 32;

/// Images, a tensor a file, and all labels.
struct Read {
  std::vector<Tensor> images = {};
  std::vector<std::int64_t> labels = {};
};

const ckpt::Value& field(const ckpt::Checkpoint& file, const char* key) {
  const ckpt::Value* found = file.root.is(ckpt::Value::Kind::dict) ? file.root.as_dict().find(key) : nullptr;
  if (found == nullptr) throw Error(ErrorCode::corrupt, std::string("a pickle without '") + key + "'");
  return *found;
}

void check_label(std::int64_t label, const Cifar& set) {
  if (label >= 0 && label < set.classes) return;
  throw Error(ErrorCode::corrupt,
              "label " + std::to_string(label) + " where there are 0 to " + std::to_string(set.classes - 1));
}

void read_pickle(const fs::path& path, const Cifar& set, Read& into) {
  const ckpt::Checkpoint file = ckpt::open(path);
  const ckpt::Value& data = field(file, "data");
  if (!data.is(ckpt::Value::Kind::tensor)) throw Error(ErrorCode::corrupt, "'data' is no array");
  const Tensor images = ckpt::to_tensor(data.as_entry(), core::Device("cpu"));
  const ckpt::Value::List& labels = field(file, set.labels).as_list();
  const auto count = static_cast<std::int64_t>(labels.size());
  if (images.dtype() != DType::u8) {
    throw Error(ErrorCode::corrupt,
                "'data' holds " + std::string(core::name(images.dtype())) + " where pixels are bytes");
  }
  if (images.sizes() != core::Shape{count, kCifarBytes}) {
    throw Error(ErrorCode::corrupt, "'data' has " + core::to_list(images.sizes()) + " elements where " +
                                        std::to_string(count) + " labels stand beside it, and images have 3072 bytes");
  }
  for (const ckpt::Value& label : labels) {
    check_label(label.as_integer(), set);
    into.labels.push_back(label.as_integer());
  }
  into.images.push_back(images.reshape({count, 3, 32, 32}));
}

void read_binary(const fs::path& path, const Cifar& set, Read& into) {
  const core::ByteVector content = read_unpacked(path);
  const std::size_t row = set.label_bytes + static_cast<std::size_t>(kCifarBytes);
  if (content.empty() || content.size() % row != 0) {
    throw Error(ErrorCode::corrupt, std::to_string(content.size()) + " bytes are no whole number of images of " +
                                        std::to_string(row) + " bytes");
  }
  const std::size_t count = content.size() / row;
  std::vector<std::uint8_t> pixels(count * static_cast<std::size_t>(kCifarBytes));
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* from = content.data() + i * row;
    into.labels.push_back(static_cast<std::int64_t>(from[set.label_bytes - 1]));
    check_label(into.labels.back(), set);
    std::memcpy(pixels.data() + i * static_cast<std::size_t>(kCifarBytes), from + set.label_bytes, kCifarBytes);
  }
  into.images.push_back(bytes_as(pixels, {static_cast<std::int64_t>(count), 3, 32, 32}));
}

Read read_cifar(const fs::path& root, const Cifar& set) {
  const fs::path pickled = root / set.pickled, binary = root / set.binary;
  const bool has_pickles = is_there(pickled / set.pickles[0]) || !is_there(binary);
  const fs::path& folder = has_pickles ? pickled : binary;
  Read all;
  for (const std::string& name : has_pickles ? set.pickles : set.binaries) {
    const fs::path file = folder / name;
    if (!is_there(file)) {
      throw_missing(file, has_pickles ? binary : pickled, set.name,
                    std::string("get ") + set.archive +
                        "-python.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html and "
                        "unpack it in " +
                        root.string());
    }
    core::with_context(file.string(), [&] { (has_pickles ? read_pickle : read_binary)(file, set, all); });
  }
  return all;
}

Sample sample_of(const Tensor& image, std::int64_t label, const transforms::Transform& transform,
                 const std::function<std::int64_t(std::int64_t)>& target_transform) {
  return {transform ? transform(image) : image, core::full({}, target_transform ? target_transform(label) : label,
                                                           {.dtype = DType::i64, .device = core::Device("cpu")})};
}

// --- Folders

std::vector<std::string> folders_in(const fs::path& root) {
  if (!fs::is_directory(root)) throw Error(ErrorCode::io, root.string() + ": no folder is there");
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  if (names.empty()) throw Error(ErrorCode::io, "Couldn't find any class folder in " + root.string() + ".");
  std::sort(names.begin(), names.end());
  return names;
}

bool ends_as(std::string name, const std::vector<std::string>& extensions) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return std::any_of(extensions.begin(), extensions.end(), [&](const std::string& end) { return name.ends_with(end); });
}

/// Files in the order of Python's sorted(os.walk()): folder by folder, by their paths, then by name.
std::vector<std::string> files_below(const fs::path& folder, const std::vector<std::string>& extensions) {
  std::vector<std::pair<std::string, std::string>> found;  // folder, name
  constexpr auto kFollow = fs::directory_options::follow_directory_symlink;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, kFollow)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() && ends_as(name, extensions))
      found.emplace_back(entry.path().parent_path().string(), name);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (const auto& [in, name] : found) paths.push_back((fs::path(in) / name).string());
  return paths;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + text;
  return out;
}

}  // namespace

Sample ImageDataset::get(std::int64_t index) const {
  const std::size_t at = core::detail::list_position(index, size());
  // A copy: what is done to it in place is not done to the data set.
  return sample_of(data_[static_cast<std::int64_t>(at)].clone(), targets_[at], options_.transform,
                   options_.target_transform);
}

MNIST::MNIST(const fs::path& root, Options options) : ImageDataset(std::move(options)) {
  const zoo::ImageSet set = read_idx_set(root, options_.train, kMnist);
  data_ = bytes_as(set.images.values, {set.images.shape[0], 1, 28, 28});
  targets_.assign(set.labels.values.begin(), set.labels.values.end());
  classes_ = {"0 - zero", "1 - one", "2 - two",   "3 - three", "4 - four",
              "5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine"};
}

FashionMNIST::FashionMNIST(const fs::path& root, Options options) : ImageDataset(std::move(options)) {
  const zoo::ImageSet set =
      root.empty() ? fashion_mnist(options_.train ? "train" : "t10k") : read_idx_set(root, options_.train, kFashion);
  data_ = bytes_as(set.images.values, {set.images.shape[0], 1, 28, 28});
  targets_.assign(set.labels.values.begin(), set.labels.values.end());
  classes_ = fashion_mnist_classes();
}

CIFAR10::CIFAR10(const fs::path& root, Options options) : ImageDataset(std::move(options)) {
  Read all = read_cifar(root, cifar10(options_.train));
  data_ = core::cat(all.images);
  targets_ = std::move(all.labels);
  classes_.assign(std::begin(kTen), std::end(kTen));
}

CIFAR100::CIFAR100(const fs::path& root, Options options) : ImageDataset(std::move(options)) {
  Read all = read_cifar(root, cifar100(options_.train));
  data_ = core::cat(all.images);
  targets_ = std::move(all.labels);
  classes_.assign(std::begin(kHundred), std::end(kHundred));
}

Image default_loader(const fs::path& path) {
  const std::optional<Image> image = try_read_image(read_unpacked(path), ImageReading::pillow);
  if (!image) throw Error(ErrorCode::unsupported, "no image; PNG, JPEG, PPM and PGM are read");
  return image->channels == 1 ? to_rgb(*image) : *image;
}

ImageFolder::ImageFolder(const fs::path& root, FolderOptions options) try
    : classes_(folders_in(root)), options_(std::move(options)) {
  std::vector<std::string> empty;
  for (std::size_t label = 0; label < classes_.size(); ++label) {
    const std::vector<std::string> files = files_below(root / classes_[label], options_.extensions);
    for (const std::string& file : files) samples_.emplace_back(file, static_cast<std::int64_t>(label));
    if (files.empty()) empty.push_back(classes_[label]);
  }
  if (!empty.empty() && !options_.allow_empty) {
    throw Error(ErrorCode::io, "Found no valid file for the classes " + joined(empty) +
                                   ". Supported extensions are: " + joined(options_.extensions));
  }
} catch (const fs::filesystem_error& error) {  // a loop of links, a folder that may not be read
  throw Error(ErrorCode::io, error.path1().string() + ": " + error.code().message());
}

Sample ImageFolder::get(std::int64_t index) const {
  const auto& [path, label] = samples_[core::detail::list_position(index, size())];
  const Tensor image =
      core::with_context(path, [&, &file = path] { return transforms::functional::to_image(options_.loader(file)); });
  return sample_of(image, label, options_.transform, options_.target_transform);
}

std::vector<std::int64_t> ImageFolder::targets() const {
  std::vector<std::int64_t> labels;
  for (const auto& [path, label] : samples_) labels.push_back(label);
  return labels;
}

}  // namespace zoo::datasets
