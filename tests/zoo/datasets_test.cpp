// Data sets of images: files as their makers write them, and what is said where one is not there or damaged.
#include "zoo/data/datasets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "libcore/base/error.h"
#include "libcore/data/loader.h"
#include "libcore/ops/operators.h"
#include "libcore/ops/reduce.h"
#include "libcore/tensor/factory.h"
#include "tests/support/message_of.h"
#include "tests/support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
namespace sets = zoo::datasets;
using core::Tensor;
using testing::ElementsAre;
using testing::HasSubstr;

void write(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  test::write_file(path, content);
}

std::string big_endian(std::uint32_t n) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(n >> shift);
  return out;
}

/// Bytes that say where they stand.
std::string pattern(std::size_t count, int seed) {
  std::string out(count, '\0');
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<char>((i * 7 + static_cast<std::size_t>(seed)) % 251);
  return out;
}

void write_idx(const fs::path& folder, const std::string& split, const std::string& labels) {
  const auto n = static_cast<std::uint32_t>(labels.size());
  write(folder / (split + "-images-idx3-ubyte"),
        big_endian(0x803) + big_endian(n) + big_endian(28) + big_endian(28) + pattern(n * 28 * 28, 1));
  write(folder / (split + "-labels-idx1-ubyte"), big_endian(0x801) + big_endian(n) + labels);
}

/// A pickle as Python 2 and NumPy 1 wrote those of CIFAR.
class Pickle {
 public:
  Pickle& text(const std::string& s) {
    out_ += s.size() < 256 ? std::string("U") + static_cast<char>(s.size()) : "T" + little_endian(s.size(), 4);
    out_ += s;
    return *this;
  }
  Pickle& raw(const std::string& bytes) {
    out_ += bytes;
    return *this;
  }
  Pickle& byte(int n) { return raw(std::string("K") + static_cast<char>(n)); }
  Pickle& list(const std::string& labels) {
    raw("](");
    for (const char label : labels) byte(static_cast<unsigned char>(label));
    return raw("e");
  }
  /// A matrix of bytes with `columns` columns.
  Pickle& bytes(const std::string& values, std::size_t columns) {
    raw("cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n").byte(0).raw("\x85").text("b").raw("\x87R(").byte(1);
    raw("M" + little_endian(values.size() / columns, 2) + "M" + little_endian(columns, 2) + "\x86");
    raw("cnumpy\ndtype\n").text("u1").byte(0).byte(1).raw("\x87R(").byte(3).text("|").raw("NNN");
    raw("J\xff\xff\xff\xffJ\xff\xff\xff\xff").byte(0);
    return raw("tb\x89").text(values).raw("tb");
  }
  std::string done() const { return "\x80\x02}q\x01(" + out_ + "u."; }

 private:
  static std::string little_endian(std::size_t n, int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += static_cast<char>(n >> (8 * i));
    return out;
  }
  std::string out_;
};

std::string cifar_pickle(const std::string& labels, int seed, const char* key = "labels") {
  Pickle p;
  p.text("batch_label").text("training batch").text(key).list(labels);
  return p.text("data").bytes(pattern(labels.size() * 3072, seed), 3072).done();
}

std::int64_t label_of(const sets::Sample& sample) {
  return std::get<1>(sample).item<std::int64_t>();
}

int pixel(const Tensor& image, std::int64_t c, std::int64_t y, std::int64_t x) {
  return image[c][y][x].item<std::uint8_t>();
}

TEST(Mnist, ReadsWhereTorchvisionHasIt) {
  const test::TempDir folder;
  write_idx(folder.path() / "MNIST" / "raw", "train", std::string("\x05\x00\x09", 3));
  write_idx(folder.path() / "MNIST" / "raw", "t10k", std::string("\x07", 1));
  const sets::MNIST train(folder.path());
  EXPECT_EQ(train.size(), 3);
  EXPECT_EQ(std::get<0>(train.get(0)).sizes(), (core::Shape{1, 28, 28}));
  EXPECT_EQ(pixel(std::get<0>(train.get(1)), 0, 2, 3), static_cast<int>(((784 + 2 * 28 + 3) * 7 + 1) % 251));
  EXPECT_THAT(train.targets(), ElementsAre(5, 0, 9));
  EXPECT_EQ(train.classes()[9], "9 - nine");
  EXPECT_EQ(label_of(train.get(-1)), 9);
  EXPECT_EQ(test::message_of([&] { (void)train.get(3); }), "list index out of range");
  EXPECT_EQ(label_of(sets::MNIST(folder.path(), {.train = false}).get(0)), 7);
}

TEST(Mnist, ASampleIsACopy) {
  const test::TempDir folder;
  write_idx(folder.path(), "train", std::string("\x05", 1));
  const sets::MNIST data(folder.path());
  std::get<0>(data.get(0)).fill_(0);
  EXPECT_EQ(pixel(std::get<0>(data.get(0)), 0, 2, 3), ((2 * 28 + 3) * 7 + 1) % 251);
}

TEST(Mnist, SaysWhichFileIsMissing) {
  const test::TempDir folder;
  const std::string at = folder.path().string();
  EXPECT_EQ(test::message_of([&] { sets::MNIST data(folder.path()); }),
            at + "/MNIST/raw/train-images-idx3-ubyte: MNIST is not there, nor in " + at +
                "; the four files are on https://ossci-datasets.s3.amazonaws.com/mnist");
  const std::string longest = (folder.path() / std::string(300, 'x')).string();
  EXPECT_EQ(test::message_of([&] { sets::MNIST data(longest); }),
            longest + "/MNIST/raw/train-images-idx3-ubyte: File name too long");
  write_idx(folder.path(), "train", std::string("\x01\x0c", 2));
  EXPECT_THAT(test::message_of([&] { sets::FashionMNIST data(folder.path()); }),
              HasSubstr("label 12 where there are 0 to 9"));
}

TEST(Cifar, ReadsPicklesOfPython2) {
  const test::TempDir folder;
  const fs::path at = folder.path() / "cifar-10-batches-py";
  for (int i = 1; i <= 5; ++i) {
    write(at / ("data_batch_" + std::to_string(i)), cifar_pickle(std::string(2, static_cast<char>(i)), i));
  }
  write(at / "test_batch", cifar_pickle(std::string("\x09", 1), 50));
  const sets::CIFAR10 data(folder.path());
  EXPECT_THAT(data.targets(), ElementsAre(1, 1, 2, 2, 3, 3, 4, 4, 5, 5));
  EXPECT_EQ(data.data().sizes(), (core::Shape{10, 3, 32, 32}));
  // Channels lie behind one another in a row of 3072.
  EXPECT_EQ(pixel(std::get<0>(data.get(3)), 2, 4, 5), static_cast<int>(((3072 + 2048 + 4 * 32 + 5) * 7 + 2) % 251));
  EXPECT_EQ(data.classes().at(9), "truck");
  EXPECT_EQ(label_of(sets::CIFAR10(folder.path(), {.train = false}).get(0)), 9);
}

TEST(Cifar, ReadsTheBinaryFiles) {
  const test::TempDir folder;
  const std::string pixels = pattern(3072, 3);
  write(folder.path() / "cifar-10-batches-bin" / "test_batch.bin", std::string(1, 6) + pixels);
  const sets::CIFAR10 ten(folder.path(), {.train = false});
  EXPECT_EQ(label_of(ten.get(0)), 6);
  EXPECT_EQ(pixel(std::get<0>(ten.get(0)), 1, 0, 2), static_cast<int>(((1024 + 2) * 7 + 3) % 251));
  write(folder.path() / "cifar-100-binary" / "train.bin", std::string("\x02\x40", 2) + pixels);  // coarse, fine
  EXPECT_THAT(sets::CIFAR100(folder.path()).targets(), ElementsAre(64));
}

TEST(Cifar, ReadsTheFineLabelsOfTheHundred) {
  const test::TempDir folder;
  write(folder.path() / "cifar-100-python" / "train", cifar_pickle("\x63\x2a", 1, "fine_labels"));
  const sets::CIFAR100 data(folder.path());
  EXPECT_THAT(data.targets(), ElementsAre(99, 42));
  EXPECT_EQ(data.classes().at(99), "worm");
}

TEST(Cifar, SaysWhatIsWrongWithAFile) {
  const test::TempDir folder;
  const std::string at = folder.path().string();
  EXPECT_EQ(
      test::message_of([&] { sets::CIFAR10 data(folder.path()); }),
      at + "/cifar-10-batches-py/data_batch_1: CIFAR-10 is not there, nor in " + at +
          "/cifar-10-batches-bin; get cifar-10-python.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html and "
          "unpack it in " +
          at);
  const fs::path file = folder.path() / "cifar-10-batches-py" / "test_batch";
  const auto message = [&] {
    try {
      sets::CIFAR10(folder.path(), {.train = false});
    } catch (const core::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  write(file, cifar_pickle("\x0a", 1));
  EXPECT_EQ(message(), file.string() + ": label 10 where there are 0 to 9");
  Pickle unlabelled, narrow;
  write(file, unlabelled.text("data").bytes(pattern(3072, 1), 3072).done());
  EXPECT_EQ(message(), file.string() + ": a pickle without 'labels'");
  write(file, narrow.text("labels").list("\x01").text("data").bytes(pattern(30, 1), 30).done());
  EXPECT_THAT(message(), HasSubstr(file.string() + ": 'data' has [1, 30] elements where 1 labels"));
  const fs::path binary = folder.path() / "cifar-100-binary" / "test.bin";
  write(binary, pattern(3075, 1));
  EXPECT_EQ(test::message_of([&] { sets::CIFAR100(folder.path(), {.train = false}); }),
            "3075 bytes are no whole number of images of 3074 bytes");
}

std::string ppm(int red) {
  return "P6 2 1 255\n" + std::string(1, static_cast<char>(red)) + std::string(5, '\0');
}

TEST(ImageFolder, OrdersClassesAndFilesAsTorchvision) {
  const test::TempDir folder;
  const fs::path root = folder.path() / "pictures";
  for (const char* name : {"dog/b.ppm", "dog/a.PPM", "cat/z/1.ppm", "cat/2.ppm", "Zebra/x.pgm", "dog/notes.txt"}) {
    write(root / name, ppm(9));
  }
  write(root / "dog" / "10.ppm", ppm(77));
  write(root / "readme.ppm", ppm(1));
  const sets::ImageFolder data(root);
  EXPECT_THAT(data.classes(), ElementsAre("Zebra", "cat", "dog"));
  std::vector<std::string> paths;
  for (const auto& [path, label] : data.samples()) paths.push_back(fs::relative(path, root).string());
  EXPECT_THAT(paths, ElementsAre("Zebra/x.pgm", "cat/2.ppm", "cat/z/1.ppm", "dog/10.ppm", "dog/a.PPM", "dog/b.ppm"));
  EXPECT_THAT(data.targets(), ElementsAre(0, 1, 1, 2, 2, 2));
  const auto [image, label] = data.get(3);
  EXPECT_EQ(image.sizes(), (core::Shape{3, 1, 2}));
  EXPECT_EQ(pixel(image, 0, 0, 0), 77);
  EXPECT_EQ(label.item<std::int64_t>(), 2);
}

TEST(ImageFolder, SaysWhatIsMissing) {
  const test::TempDir folder;
  const std::string at = folder.path().string();
  EXPECT_EQ(test::message_of([&] { sets::ImageFolder data(folder.path()); }),
            "Couldn't find any class folder in " + at + ".");
  write(folder.path() / "cat" / "1.ppm", ppm(1));
  fs::create_directories(folder.path() / "dog");
  EXPECT_EQ(
      test::message_of([&] { sets::ImageFolder data(folder.path()); }),
      "Found no valid file for the classes dog. Supported extensions are: .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, "
      ".tiff, .webp");
  EXPECT_EQ(sets::ImageFolder(folder.path(), {.allow_empty = true}).size(), 1);
  write(folder.path() / "dog" / "2.png", "\x89PNG");
  const sets::ImageFolder data(folder.path());
  const std::string file = (folder.path() / "dog" / "2.png").string();
  const auto says = [&](const std::string& content) -> std::string {
    write(file, content);
    try {
      (void)data.get(1);
    } catch (const core::Error& error) {
      return error.what();
    }
    return "an image";
  };
  EXPECT_EQ(says("\x89PNG"), file + ": a damaged PNG image: cut off");
  EXPECT_EQ(says("GIF89a"), file + ": a GIF image is not read; PNG, JPEG, PPM and PGM are");
  EXPECT_EQ(says("text"), file + ": no image; PNG, JPEG, PPM and PGM are read");
  EXPECT_EQ(says(ppm(5)), "an image");
  EXPECT_THAT(test::message_of([] { sets::ImageFolder none("/nowhere/at/all"); }),
              "/nowhere/at/all: no folder is there");
}

TEST(ImageFolder, RefusesALoopOfLinks) {
  const test::TempDir folder;
  write(folder.path() / "a" / "1.ppm", ppm(1));
  fs::create_directory_symlink("..", folder.path() / "a" / "up");
  EXPECT_THAT(test::message_of([&] { sets::ImageFolder data(folder.path()); }),
              HasSubstr("Too many levels of symbolic links"));
}

TEST(ImageFolder, TakesALoaderTransformsAndALoaderOfBatches) {
  const test::TempDir folder;
  for (const char* name : {"a/1.raw", "a/2.raw", "b/1.raw"}) write(folder.path() / name, "x");
  const sets::DatasetFolder data(
      folder.path(), {.loader = [](const fs::path&) { return zoo::make_image(4, 4, 1); },
                      .extensions = {".raw"},
                      .transform = zoo::transforms::Compose(
                          {zoo::transforms::Pad({1}, {255}), zoo::transforms::ToDtype(core::DType::f32, true)}),
                      .target_transform = [](std::int64_t label) { return label + 10; }});
  std::int64_t batches = 0;
  for (auto& [images, labels] : core::DataLoader(data, {.batch_size = 3})) {
    ++batches;
    EXPECT_EQ(images.sizes(), (core::Shape{3, 1, 6, 6}));
    EXPECT_EQ(images.sum().item<float>(), 3 * 20);
    EXPECT_EQ(labels.sum().item<std::int64_t>(), 10 + 10 + 11);
  }
  EXPECT_EQ(batches, 1);
}

}  // namespace
